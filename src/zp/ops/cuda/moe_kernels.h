// Launchers of the mixture of experts: assignments (token, choice) are sorted by expert into slots, the two products
// run over all experts at once, and each token's slots are summed. Nothing here needs the host to know a count.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "zp/ops/cuda/kernels.h"

namespace zp::cuda {

/// Slots of a tile of the grouped products: two blocks share it.
inline constexpr int32_t kTileM = 256;

struct MoeSortParams {
  const int32_t* ids;  // [T, k]
  int64_t assignments;
  int32_t chosen;
  int32_t experts;
  int32_t* counts;       // [E] scratch
  int32_t* cursors;      // [E] scratch
  int32_t* offsets;      // [E + 1]: slots [offsets[e], offsets[e + 1]) are expert e's
  int32_t* tile_starts;  // [E + 1]: the same in tiles of kTileM slots
  int32_t* slots;        // [T, k]: where an assignment went
  int32_t* tokens;       // [T * k]: of each slot
};
/// The order of an expert's slots is any; results do not depend on it.
void launch_moe_sort(const MoeSortParams& params, cudaStream_t stream);

/// out[slot, :] = x[row of slot, :] * weights of the slot's expert; for gate and up, silu(gate) * up.
struct GroupedGemmParams {
  const Bits16* x;             // [rows, x_stride]
  const int32_t* rows;         // [slots], or null: slot s reads row s
  int64_t x_stride;            // a multiple of 8
  int64_t k;                   // elements of a row that exist, a multiple of 8
  std::byte* const* experts;   // [E] blobs
  size_t weight_offset;        // of the first tile in a blob
  int32_t n_tiles;             // tiles of 256 rows of weights
  int32_t k_tiles;             // tiles of 64 elements
  const int32_t* offsets;      // [E + 1]
  const int32_t* tile_starts;  // [E + 1]
  int32_t* next_tile;          // [1] scratch
  int32_t expert_count;
  bool gate_up;
  Bits16* out;          // [slots, out_stride]
  int64_t out_stride;   // a multiple of 8
  int64_t out_columns;  // features that exist; gate_up writes zeros from here to out_stride
  int64_t slots;
};
/// One thread an element: the specification of the other.
void launch_grouped_gemm_simple(const GroupedGemmParams& params, cudaStream_t stream);
/// On the tensor cores, one block a multiprocessor, in pairs.
void launch_grouped_gemm(const GroupedGemmParams& params, int32_t multiprocessors, cudaStream_t stream);

struct MoeCombineParams {
  const Bits16* y;       // [slots, y_stride]
  const int32_t* slots;  // [T, k]
  const float* weights;  // [T, k]
  float* out;            // [T, H]
  int64_t tokens;
  int64_t hidden;  // a multiple of 8
  int64_t y_stride;
  int32_t chosen;
};
/// Sums in the order of k.
void launch_moe_combine(const MoeCombineParams& params, cudaStream_t stream);

struct MoeCombineNormParams {
  MoeCombineParams sum;     // `out` is scratch here
  ResidualNormParams norm;  // of as many rows of as many elements; its `delta` is not read
};
/// launch_moe_combine() and launch_residual_norm() of its result: the same bits, but the sum does not pass through
/// memory unless rows are longer than those that a block has in registers.
void launch_moe_combine_norm(const MoeCombineNormParams& params, cudaStream_t stream);

}  // namespace zp::cuda
