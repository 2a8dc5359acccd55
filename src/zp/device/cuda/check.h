// How every call of the CUDA runtime is checked.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace zp::cuda {

/// Throws kDevice, or kOutOfMemory for a refused allocation, naming the call, the device and the cause.
[[noreturn]] void throw_cuda_error(cudaError_t status, const char* call, int32_t device);

inline void check(cudaError_t status, const char* call, int32_t device) {
  if (status != cudaSuccess) [[unlikely]]
    throw_cuda_error(status, call, device);
}

}  // namespace zp::cuda

/// Checks a call of the CUDA runtime: `CUDA_CHECK(cudaMalloc(&data, bytes), index_)`.
#define CUDA_CHECK(call, device) ::zp::cuda::check((call), #call, (device))
