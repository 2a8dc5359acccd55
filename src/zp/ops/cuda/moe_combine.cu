// Each token's slots summed in the order of its choices; and, in the same pass, added to the residual and normed.
#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/moe_kernels.h"
#include "zp/ops/cuda/norm_row.cuh"

namespace zp::cuda {
namespace {

constexpr int32_t kThreads = kRowThreads;

// Two or four words of a slot's row, as one load brings them.
template <int32_t kWords>
struct Words;
template <>
struct Words<2> : uint2 {
  [[nodiscard]] __device__ uint32_t operator[](int32_t i) const { return i == 0 ? x : y; }
};
template <>
struct Words<4> : uint4 {
  [[nodiscard]] __device__ uint32_t operator[](int32_t i) const { return i == 0 ? x : i == 1 ? y : i == 2 ? z : w; }
};

// The sum over a token's choices, in their order: the one arithmetic of this file. for_each(visit) calls visit(i, at)
// for the vectors that a thread has: sum[i] is of vector `at` of the row that begins at y in slot 0. All rows of
// kAtOnce choices are asked for before one is added.
template <int32_t kAtOnce, int32_t kVectors, int32_t kElements, typename ForEach>
__device__ void sum_slots(const MoeCombineParams& p, const Bits16* y, const ForEach& for_each,
                          float (&sum)[kVectors][kElements]) {
  constexpr int32_t kWords = kElements / 2;
  const int32_t* slots = p.slots + int64_t{blockIdx.x} * p.chosen;
  const float* weights = p.weights + int64_t{blockIdx.x} * p.chosen;
  for (int32_t first = 0; first < p.chosen; first += kAtOnce) {
    const Words<kWords>* rows[kAtOnce];
    float weight[kAtOnce];
#pragma unroll
    for (int32_t j = 0; j < kAtOnce; ++j) {
      if (first + j >= p.chosen) continue;
      weight[j] = weights[first + j];
      rows[j] = reinterpret_cast<const Words<kWords>*>(y + slots[first + j] * p.y_stride);
    }
    for_each([&](int32_t i, int32_t at) {
      Words<kWords> words[kAtOnce];
#pragma unroll
      for (int32_t j = 0; j < kAtOnce; ++j)
        if (first + j < p.chosen) words[j] = rows[j][at];
#pragma unroll
      for (int32_t j = 0; j < kAtOnce; ++j) {
        if (first + j >= p.chosen) continue;
#pragma unroll
        for (int32_t w = 0; w < kWords; ++w) {
          const float2 pair = unpack_bf16(words[j][w]);
          sum[i][2 * w] = __fmaf_rn(weight[j], pair.x, sum[i][2 * w]);
          sum[i][2 * w + 1] = __fmaf_rn(weight[j], pair.y, sum[i][2 * w + 1]);
        }
      }
    });
  }
}

// One block a token; a thread sums eight elements at a time.
__global__ void combine_kernel(MoeCombineParams p) {
  for (int64_t h = threadIdx.x * 8; h < p.hidden; h += kThreads * 8) {
    float sum[1][8] = {};
    sum_slots<4>(
        p, p.y + h, [](const auto& visit) { visit(0, 0); }, sum);
    auto* out = reinterpret_cast<float4*>(p.out + int64_t{blockIdx.x} * p.hidden + h);
    out[0] = make_float4(sum[0][0], sum[0][1], sum[0][2], sum[0][3]);
    out[1] = make_float4(sum[0][4], sum[0][5], sum[0][6], sum[0][7]);
  }
}

// One block a token; four blocks a multiprocessor, so that one asks for rows while another norms.
template <int32_t kVectors>
__global__ void __launch_bounds__(kThreads, kVectors <= 4 ? 4 : 2)
    combine_norm_kernel(const __grid_constant__ MoeCombineNormParams p) {
  NormRow<kVectors> row(p.norm);
  float sum[kVectors][4] = {};
  sum_slots<8>(
      p.sum, p.sum.y, [&](const auto& visit) { row.for_each(visit); }, sum);
  float4 delta[kVectors];
#pragma unroll
  for (int32_t i = 0; i < kVectors; ++i) delta[i] = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
  row.add(delta);
  if (p.norm.out != nullptr) row.norm();
}

}  // namespace

void launch_moe_combine(const MoeCombineParams& params, cudaStream_t stream) {
  combine_kernel<<<static_cast<unsigned>(params.tokens), kThreads, 0, stream>>>(params);
}

void launch_moe_combine_norm(const MoeCombineNormParams& params, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(params.sum.tokens);
  if (params.norm.hidden > kNormRowMax) {
    launch_moe_combine(params.sum, stream);
    ResidualNormParams norm = params.norm;
    norm.delta = params.sum.out;
    launch_residual_norm(norm, stream);
    return;
  }
  for_row_of(params.norm.hidden, [&](auto vectors) {
    combine_norm_kernel<decltype(vectors)::value><<<blocks, kThreads, 0, stream>>>(params);
  });
}

}  // namespace zp::cuda
