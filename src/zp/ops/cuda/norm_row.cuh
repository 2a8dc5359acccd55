// A row of the residual stream in the registers of a block: one arithmetic for all kernels that add to it and norm it,
// so that they give the same bits.
#pragma once

#include <type_traits>

#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/kernels.h"

namespace zp::cuda {

/// Threads of a block that has a row.
inline constexpr int32_t kRowThreads = 256;

/// The sum over the block, in a fixed order; every thread gets it. Once a kernel.
__device__ inline float block_sum(float value) {
  constexpr int32_t kWarps = kRowThreads / kWarp;
  __shared__ float sums[kWarps];
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  float total = 0;
  for (int32_t w = 0; w < kWarps; ++w) total += sums[w];
  return total;
}

/// Row blockIdx.x, of at most kVectors * 1024 elements, a multiple of 4. A thread has every kRowThreads-th vector of
/// four.
template <int32_t kVectors>
class NormRow {
 public:
  /// Asks for the residual.
  __device__ explicit NormRow(const ResidualNormParams& p)
      : p_(p),
        row_(blockIdx.x * p.hidden),
        count_(static_cast<int32_t>(p.hidden / 4)),
        first_(static_cast<int32_t>(threadIdx.x)) {
    const auto* residual = reinterpret_cast<const float4*>(p.residual + row_);
    for_each([&](int32_t i, int32_t at) { values_[i] = residual[at]; });
  }

  /// Calls visit(i, at) for the thread's vectors: number i of the thread's is number `at` of the row's.
  template <typename Visit>
  __device__ void for_each(Visit&& visit) const {
#pragma unroll
    for (int32_t i = 0; i < kVectors; ++i) {
      const int32_t at = first_ + i * kRowThreads;
      if (at < count_) visit(i, at);
    }
  }

  /// residual += delta, also in memory.
  __device__ void add(const float4 (&delta)[kVectors]) {
    auto* residual = reinterpret_cast<float4*>(p_.residual + row_);
    for_each([&](int32_t i, int32_t at) {
      const float4 value = values_[i];
      const float4 more = delta[i];
      values_[i] = make_float4(__fadd_rn(value.x, more.x), __fadd_rn(value.y, more.y), __fadd_rn(value.z, more.z),
                               __fadd_rn(value.w, more.w));
      residual[at] = values_[i];
    });
  }

  /// out = the normed row. All threads of the block call it.
  __device__ void norm() const {
    float4 weights[kVectors];  // on their way while the sum is made
    const auto* weight = reinterpret_cast<const float4*>(p_.weight);
    for_each([&](int32_t i, int32_t at) { weights[i] = weight[at]; });
    float squares = 0;
    for_each([&](int32_t i, int32_t /*at*/) {
      const float4 v = values_[i];
      squares = __fadd_rn(squares, __fmaf_rn(v.x, v.x, __fmaf_rn(v.y, v.y, __fmaf_rn(v.z, v.z, __fmul_rn(v.w, v.w)))));
    });
    const float scale = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(p_.hidden) + p_.eps);
    auto* out = reinterpret_cast<uint2*>(p_.out + row_);
    for_each([&](int32_t i, int32_t at) {
      const float4 w = weights[i];
      const float4 v = values_[i];
      out[at] =
          make_uint2(pack_bf16(v.x * scale * w.x, v.y * scale * w.y), pack_bf16(v.z * scale * w.z, v.w * scale * w.w));
    });
  }

 private:
  const ResidualNormParams& p_;
  int64_t row_;
  int32_t count_;
  int32_t first_;
  float4 values_[kVectors];
};

/// The longest row that a NormRow of some kVectors has.
inline constexpr int64_t kNormRowMax = 8192;

/// Calls launch(kVectors) with the fewest vectors that have a row of `hidden` elements, as an integral constant.
template <typename Launch>
void for_row_of(int64_t hidden, Launch&& launch) {
  if (hidden <= 2048)
    launch(std::integral_constant<int32_t, 2>());
  else if (hidden <= 4096)
    launch(std::integral_constant<int32_t, 4>());
  else
    launch(std::integral_constant<int32_t, 8>());
}

}  // namespace zp::cuda
