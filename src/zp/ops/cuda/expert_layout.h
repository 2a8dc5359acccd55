// How an expert's weights lie in its blob: as tiles of shared memory, so that a kernel fetches one with a single bulk
// copy and multiplies it as it is. Used by the packing on the host and by the kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace zp::cuda {

/// A weight tile: 256 rows (output features) of 64 elements of k, bf16: 32 KiB. A row has 128 bytes in 8 chunks of 16;
/// chunk c of row r lies at place c ^ (r % 8), the 128-byte swizzle that wgmma reads without bank conflicts.
inline constexpr int64_t kTileN = 256;
inline constexpr int64_t kTileK = 64;
inline constexpr int64_t kChunkElements = 8;
inline constexpr size_t kRowBytes = kTileK * 2;
inline constexpr size_t kTileBytes = static_cast<size_t>(kTileN) * kRowBytes;
/// A gate_up tile holds 128 gate rows and the 128 up rows of the same features.
inline constexpr int64_t kGateUpFeatures = kTileN / 2;

/// Where the chunk of elements [8 * chunk, 8 * chunk + 8) of `row` begins within its tile, in bytes.
[[nodiscard]] constexpr size_t chunk_offset(int64_t row, int64_t chunk) {
  return static_cast<size_t>(row) * kRowBytes + static_cast<size_t>(chunk ^ (row % 8)) * 16;
}

/// Rows are in an order of their own. wgmma leaves columns 8j + 2c and 8j + 2c + 1 of its result to thread c of four;
/// with these orders those of four groups j are eight neighbouring features, which the thread writes at once.
/// Row of feature `f` (of 256) in a tile of down.
[[nodiscard]] constexpr int64_t down_row(int64_t f) { return f / 32 * 32 + f % 8 / 2 * 8 + f % 32 / 8 * 2 + f % 2; }
/// Row of feature `f` (of 128) of gate in a tile of gate_up; groups of gate and up alternate, so up is 8 rows further.
[[nodiscard]] constexpr int64_t gate_row(int64_t f) { return f / 32 * 64 + f % 8 / 2 * 16 + f % 32 / 8 * 2 + f % 2; }
[[nodiscard]] constexpr int64_t up_row(int64_t f) { return gate_row(f) + 8; }

/// Tiles of gate_up ([n tile][k tile]), then tiles of down. What lies beyond a matrix is zero.
struct ExpertLayout {
  int64_t gate_up_n_tiles = 0;
  int64_t gate_up_k_tiles = 0;
  int64_t down_n_tiles = 0;
  int64_t down_k_tiles = 0;

  constexpr ExpertLayout(int64_t hidden, int64_t intermediate)
      : gate_up_n_tiles((intermediate + kGateUpFeatures - 1) / kGateUpFeatures),
        gate_up_k_tiles((hidden + kTileK - 1) / kTileK),
        down_n_tiles((hidden + kTileN - 1) / kTileN),
        down_k_tiles((intermediate + kTileK - 1) / kTileK) {}

  [[nodiscard]] constexpr size_t gate_up_offset(int64_t n_tile, int64_t k_tile) const {
    return static_cast<size_t>(n_tile * gate_up_k_tiles + k_tile) * kTileBytes;
  }
  [[nodiscard]] constexpr size_t down_begin() const { return gate_up_offset(gate_up_n_tiles, 0); }
  [[nodiscard]] constexpr size_t down_offset(int64_t n_tile, int64_t k_tile) const {
    return down_begin() + static_cast<size_t>(n_tile * down_k_tiles + k_tile) * kTileBytes;
  }
  [[nodiscard]] constexpr size_t blob_bytes() const { return down_offset(down_n_tiles, 0); }
  /// Columns of the inner activations [assignments, columns]: as many as tiles of down read.
  [[nodiscard]] constexpr int64_t inner_columns() const { return down_k_tiles * kTileK; }
};

/// The most tokens that moe() may be given: the grouped product finds chunks of rows by 32-bit numbers.
[[nodiscard]] constexpr int64_t moe_tokens_max(int64_t chosen, int64_t hidden, int64_t intermediate) noexcept {
  constexpr int64_t kChunksMax = int64_t{1} << 32;
  const int64_t inner = chosen * ExpertLayout(hidden, intermediate).inner_columns();
  return kChunksMax * kChunkElements / std::max({hidden, inner, int64_t{1}});
}

}  // namespace zp::cuda
