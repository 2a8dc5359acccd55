// Launchers of attention, and the metadata they read. Which of them runs is one choice (attention.cpp).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "zp/ops/cuda/kernels.h"
#include "zp/ops/cuda_limits.h"

namespace zp::cuda {

/// Keys and values of kKvBlockTokens tokens: [16, G, D] each.
struct KvBlock {
  const std::byte* k;
  const std::byte* v;
};

struct AttentionSpan {
  int64_t row;      // of its first fresh token
  int64_t block;    // of its first token, in the table of blocks
  int32_t tokens;   // fresh ones
  int32_t context;  // cached ones, a multiple of 16
};

/// Some rows of a sequence's queries. All query heads of a kv head are rows of one matrix, row t * group + h being head
/// h of fresh token t, so that keys and values are read once for all of them.
struct AttentionTile {
  int32_t span;
  int32_t first_row;
};

struct AttentionParams {
  const Bits16* q;             // [T, Q, D]
  Bits16* out;                 // [T, Q, D]; may be q
  const KvBlock* blocks;       // all spans' blocks, fresh tokens included
  const AttentionSpan* spans;  // [S]
  const AttentionTile* tiles;  // [tiles]
  int64_t tile_count;
  int32_t q_heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t multiprocessors;
  float scale;
};

/// Tiles of kSimpleTileRows rows by 64 keys with mma.sync; head dimensions that are multiples of 16, at most 256.
inline constexpr int32_t kHeadDimMax = 256;
void launch_attention_simple(const AttentionParams& params, cudaStream_t stream);

/// Where a block's keys and values are, as rows of the maps below: of the kept ones, or ~row of the fresh ones.
struct KvRows {
  int32_t k;
  int32_t v;
};
/// One array's rows in boxes of one kv head: of a block, and of a tile of keys.
struct KvMaps {
  CUtensorMap block;
  CUtensorMap tile;
};
struct AttentionTensorParams {
  AttentionParams base;  // its `blocks` is not read
  const KvRows* rows;    // all spans' blocks, as `blocks` has them
  const Bits16* v;       // [T, G, D] the fresh ones
  KvMaps fresh_k;
  KvMaps fresh_v;
  KvMaps kept_k;
  KvMaps kept_v;
  CUtensorMap q;  // boxes of as many whole tokens of a kv head's query heads as make up a tile
};
inline constexpr int32_t kTensorTileKeys = 128;
/// Tiles of up to 128 rows, whole tokens, by 128 keys with wgmma, one block a multiprocessor; head dimensions 64 and
/// 128, at most 128 query heads a kv head.
inline constexpr int32_t kTensorTileRows = 128;
void launch_attention_tensor(const AttentionTensorParams& params, cudaStream_t stream);

}  // namespace zp::cuda
