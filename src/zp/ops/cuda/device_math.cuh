// Small device functions that several kernels use.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "zp/ops/cuda/kernels.h"
#include "zp/ops/cuda/ptx.cuh"

namespace zp::cuda {

inline constexpr int32_t kWarp = 32;

__device__ inline const __nv_bfloat16* as_bf16(const Bits16* data) {
  return reinterpret_cast<const __nv_bfloat16*>(data);
}
__device__ inline __nv_bfloat16* as_bf16(Bits16* data) { return reinterpret_cast<__nv_bfloat16*>(data); }

/// Two values as bf16, the first in the low half: as they lie in memory.
__device__ inline uint32_t pack_bf16(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ inline float2 unpack_bf16(uint32_t bits) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits));
}

inline constexpr float kLog2E = 1.44269504088896340736f;

/// To a few units of the last place: exp and division are the fast ones, which flush denormal numbers.
__device__ inline float silu(float x) { return x * ptx::reciprocal_fast(1.0f + ptx::exp2_fast(-kLog2E * x)); }

/// Every lane gets the result. The order of the sum is fixed.
__device__ inline float warp_sum(float value) {
  for (int32_t lanes = kWarp / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  return value;
}
__device__ inline double warp_sum(double value) {
  for (int32_t lanes = kWarp / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  return value;
}
__device__ inline float warp_max(float value) {
  for (int32_t lanes = kWarp / 2; lanes > 0; lanes /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  return value;
}

/// The expert whose range [starts[e], starts[e + 1]) holds `index`, which some range does. starts has experts + 1
/// entries.
__device__ inline int32_t find_range(const int32_t* starts, int32_t experts, int32_t index) {
  int32_t low = 0;
  int32_t high = experts - 1;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (index < starts[middle + 1])
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace zp::cuda
