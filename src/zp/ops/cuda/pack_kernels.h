// Launchers of the kernels that pack weights. Rules as in kernels.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "zp/tensor/dtype.h"

namespace zp::cuda {

/// Rows in device memory, as StoredRows has them.
struct StoredRowsParams {
  const std::byte* data;
  DType dtype;  // f32, bf16 or f16
  int64_t rows;
  int64_t columns;
  int64_t stride;  // elements
};

/// out[r, c] = rows[r, c], rounded.
struct ConvertRowsParams {
  StoredRowsParams rows;
  void* out;  // [rows, columns] f32 or bf16
  bool out_is_f32;
};
void launch_convert_rows(const ConvertRowsParams& params, cudaStream_t stream);

/// Rows to their places in the tiles of ExpertLayout; elements beyond a row become 0.
struct PackExpertRowsParams {
  StoredRowsParams rows;
  std::byte* tiles;   // of the matrix: the first tile of gate_up or of down
  int64_t first;      // the first row's number in the matrix
  int64_t k_tiles;    // of the matrix
  int32_t row_order;  // kGateOrder, kUpOrder or kDownOrder
};
inline constexpr int32_t kGateOrder = 0;
inline constexpr int32_t kUpOrder = 1;
inline constexpr int32_t kDownOrder = 2;
void launch_pack_expert_rows(const PackExpertRowsParams& params, cudaStream_t stream);

}  // namespace zp::cuda
