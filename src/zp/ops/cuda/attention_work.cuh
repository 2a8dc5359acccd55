// What a block of attention_tensor.cu works on.
#pragma once

#include <cstdint>

#include "zp/ops/cuda/attention_kernels.h"

namespace zp::cuda {

/// Rows of queries of one kv head.
struct alignas(16) Work {
  int32_t rows;
  int32_t kv_head;
  int32_t first_row;       ///< its first token's, in q and out
  int32_t first_position;  ///< of that token
  int32_t key_tiles;
  int32_t last;  ///< not 0: of this block
  int32_t unused[2];
};

/// Which tokens and query heads a work's rows are: row is token times group, plus head.
class RowMap {
 public:
  __device__ explicit RowMap(const AttentionParams& p)
      : group_(p.q_heads / p.kv_heads), inverse_(0xffffffffu / static_cast<uint32_t>(group_) + 1) {}

  [[nodiscard]] __device__ int32_t group() const { return group_; }
  /// The most rows of a work.
  [[nodiscard]] __device__ int32_t tile_rows() const { return token(kTensorTileRows) * group_; }
  /// row / group, of a row of a work: exact since row * group is below 2^32.
  [[nodiscard]] __device__ int32_t token(int32_t row) const {
    return group_ == 1 ? row : static_cast<int32_t>(__umulhi(static_cast<uint32_t>(row), inverse_));
  }

 private:
  int32_t group_;
  uint32_t inverse_;  // 2^32 / group, rounded up
};

/// What a block works on, one after another. Every round goes through all blocks, every other one backwards, since the
/// work gets shorter. What is to be read about the next work is asked for while this one runs.
class Works {
 public:
  __device__ explicit Works(const AttentionParams& p, const RowMap& map)
      : p_(p),
        map_(map),
        tile_count_(static_cast<int32_t>(p.tile_count)),
        count_(tile_count_ * p.kv_heads),
        inverse_(~uint64_t{0} / static_cast<uint64_t>(tile_count_) + 1),
        after_(tile(0)) {
    advance();
  }

  /// The next one, of a block that has one, and where its sequence is.
  __device__ void take(Work& work, AttentionSpan& span) {
    span = span_;
    const int32_t first_token = tile_.first_row / map_.group();
    work.rows = min(span_.tokens * map_.group() - tile_.first_row, map_.tile_rows());
    work.kv_head = head_of(index_of(round_));
    work.first_row = static_cast<int32_t>(span_.row) + first_token;
    work.first_position = span_.context + first_token;
    work.key_tiles = (work.first_position + map_.token(work.rows - 1)) / kTensorTileKeys + 1;
    ++round_;
    work.last = index_of(round_) >= count_ ? 1 : 0;
    advance();
  }

 private:
  [[nodiscard]] __device__ static int32_t index_of(int32_t round) {
    const auto block = static_cast<int32_t>(blockIdx.x);
    const auto blocks = static_cast<int32_t>(gridDim.x);
    return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
  }
  // Of a round, or any if there is none.
  [[nodiscard]] __device__ AttentionTile tile(int32_t round) const {
    const int32_t index = min(index_of(round), count_ - 1);
    return p_.tiles[index - head_of(index) * tile_count_];
  }
  // index / tile_count.
  [[nodiscard]] __device__ int32_t head_of(int32_t index) const {
    return tile_count_ == 1 ? index : static_cast<int32_t>(__umul64hi(static_cast<uint64_t>(index), inverse_));
  }
  __device__ void advance() {
    tile_ = after_;
    span_ = p_.spans[tile_.span];
    after_ = tile(round_ + 1);
  }

  const AttentionParams& p_;
  const RowMap& map_;
  int32_t tile_count_;
  int32_t count_;
  uint64_t inverse_;  // 2^64 / tile_count, rounded up
  int32_t round_ = 0;
  AttentionTile tile_;
  AttentionSpan span_;
  AttentionTile after_;
};

}  // namespace zp::cuda
