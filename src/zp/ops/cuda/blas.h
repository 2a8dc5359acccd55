// What every product by cuBLASLt needs. It works column by column: a row-major [tokens, n] is its n by tokens, so
// weights come first, transposed.
#pragma once

#include <cublasLt.h>

#include <cstdint>

#include "zp/base/error.h"

namespace zp::cuda {

inline void check_blas(cublasStatus_t status, const char* call, int32_t device) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(ErrorCode::kDevice, "{} failed on cuda:{}: {}", call, device, cublasLtGetStatusString(status));
}

/// The three matrices of out[tokens, n] = x[tokens, k] * weight[n, k]^T.
struct ProductLayouts {
  cublasLtMatrixLayoutOpaque_t weight{};
  cublasLtMatrixLayoutOpaque_t x{};
  cublasLtMatrixLayoutOpaque_t out{};

  ProductLayouts(int64_t tokens, int64_t n, int64_t k, bool out_is_f32, int32_t device) {
    const auto rows = static_cast<uint64_t>(n);
    const auto columns = static_cast<uint64_t>(tokens);
    const auto inner = static_cast<uint64_t>(k);
    check_blas(cublasLtMatrixLayoutInit(&weight, CUDA_R_16BF, inner, rows, k), "cublasLtMatrixLayoutInit", device);
    check_blas(cublasLtMatrixLayoutInit(&x, CUDA_R_16BF, inner, columns, k), "cublasLtMatrixLayoutInit", device);
    check_blas(cublasLtMatrixLayoutInit(&out, out_is_f32 ? CUDA_R_32F : CUDA_R_16BF, rows, columns, n),
               "cublasLtMatrixLayoutInit", device);
  }
};

}  // namespace zp::cuda
