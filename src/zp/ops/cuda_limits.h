// What the CUDA operations take of host memory, and how long a sequence they take, as numbers that need no GPU: plans
// are made of them, and tests run, anywhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace zp::cuda {

/// The most metadata that one operation may send to the device, and how often a ring holds that (cuda/staging.h).
inline constexpr size_t kSegmentBytes = size_t{16} << 20;
inline constexpr size_t kSegments = 4;
/// Locked host memory of each object that has operations: its ring.
inline constexpr size_t kOpsPinnedBytes = kSegments * kSegmentBytes;

/// Fresh and cached keys are listed by such blocks.
inline constexpr int32_t kKvBlockTokens = 16;
/// Rows of queries in the smaller of attention's tiles. All query heads of a kv head are rows.
inline constexpr int32_t kSimpleTileRows = 64;
/// Attention lists sequences up to this many bytes for one launch; the rest of a segment is for alignment.
inline constexpr size_t kAttentionMetadataMax = kSegmentBytes - 4096;
/// What it sends of one sequence.
[[nodiscard]] constexpr size_t attention_metadata_bytes(int64_t blocks, int64_t tiles) noexcept {
  constexpr size_t kBlockEntry = 16;
  constexpr size_t kTileEntry = 8;
  constexpr size_t kSequenceEntry = 24;
  return static_cast<size_t>(blocks) * kBlockEntry + static_cast<size_t>(tiles) * kTileEntry + kSequenceEntry;
}

/// Tokens of a step for which what embed() sends fits a segment: an id a token. Other operations of an engine work on
/// chunks (at most 8 MiB: ids and positions for route()), but attention(), which sends sequence by sequence.
inline constexpr int64_t kEmbeddedTokensMax = static_cast<int64_t>(kSegmentBytes / sizeof(int32_t));
/// The most tokens that a sequence may have, cached ones included, so that attention() can send what it needs of it.
/// `heads`: query heads a kv head.
[[nodiscard]] constexpr int64_t sequence_tokens_max(int64_t heads) noexcept {
  // Tiles of 4 blocks: of each there are as many as heads; and one more, which is not full.
  constexpr int64_t kBlocks = kSimpleTileRows / kKvBlockTokens;
  const size_t four = attention_metadata_bytes(kBlocks, heads) - attention_metadata_bytes(0, 0);
  const size_t most = (kAttentionMetadataMax - attention_metadata_bytes(0, 1)) / four;
  return std::min(static_cast<int64_t>(most) * kBlocks * kKvBlockTokens, kEmbeddedTokensMax);
}

}  // namespace zp::cuda
