// Asks the driver to encode tensor maps.
#include "zp/ops/cuda/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <array>
#include <utility>

#include "zp/base/error.h"
#include "zp/device/cuda/check.h"

namespace zp::cuda {
namespace {

// By way of the runtime, so that nothing links against the driver's library.
PFN_cuTensorMapEncodeTiled_v12000 find_encoder(int32_t device) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  constexpr unsigned kSince = 12000;
  CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince, cudaEnableDefault, &result),
             device);
  if (result != cudaDriverEntryPointSuccess || function == nullptr)
    fail(ErrorCode::kDevice, "this driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

}  // namespace

CUtensorMap make_rows_map(const RowsMapSpec& spec, int32_t device) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_encoder(device);
  constexpr cuuint32_t kBoxColumns = 64;
  constexpr cuuint64_t kElementBytes = 2;
  const auto dim = static_cast<cuuint64_t>(spec.dim);
  const auto heads = static_cast<cuuint64_t>(spec.heads);
  std::array<cuuint64_t, 3> sizes{dim, heads, static_cast<cuuint64_t>(spec.rows)};
  std::array<cuuint64_t, 2> strides{dim * kElementBytes, heads * dim * kElementBytes};
  std::array<cuuint32_t, 3> box{kBoxColumns, static_cast<cuuint32_t>(spec.box_heads),
                                static_cast<cuuint32_t>(spec.box_rows)};
  if (spec.box_heads == 1) {
    std::swap(sizes[1], sizes[2]);
    std::swap(strides[0], strides[1]);
    std::swap(box[1], box[2]);
  }
  const std::array<cuuint32_t, 3> steps{1, 1, 1};
  CUtensorMap map{};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void*>(spec.base), sizes.data(), strides.data(),
             box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    fail(ErrorCode::kDevice,
         "the driver refuses a tensor map of {} rows of {} heads of {} in boxes of {} x {} (error {})", spec.rows,
         spec.heads, spec.dim, spec.box_rows, spec.box_heads, static_cast<int>(status));
  return map;
}

}  // namespace zp::cuda
