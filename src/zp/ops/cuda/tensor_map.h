// Descriptions of arrays in device memory by which the bulk copy engine finds boxes of them.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace zp::cuda {

/// Rows of heads of bf16: [rows, heads, dim]. A box has 64 elements of `box_heads` heads of `box_rows` rows and lies in
/// shared memory as 128 swizzled bytes a head, as ptx::describe_matrix() wants them; what is outside is zero there.
/// The copy engine is slow over a box's third dimension: boxes of one head have rows as their second one, and are
/// addressed by (element, row, head); others by (element, head, row).
struct RowsMapSpec {
  const void* base = nullptr;  // 16-byte aligned; need not be the beginning of an allocation
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t dim = 0;  // a multiple of 64
  int32_t box_heads = 1;
  int32_t box_rows = 1;
};

/// For a kernel's __grid_constant__ parameter. Throws what the driver refuses. Any thread;
/// `device` is named in errors.
[[nodiscard]] CUtensorMap make_rows_map(const RowsMapSpec& spec, int32_t device);

}  // namespace zp::cuda
