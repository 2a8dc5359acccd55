// Kernels that move or scale rows: metadata, embedding, residual and norm, SwiGLU, gathering, converting, combining.
#include <algorithm>

#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/kernels.h"
#include "zp/ops/cuda/norm_row.cuh"

namespace zp::cuda {
namespace {

constexpr int32_t kThreads = kRowThreads;

unsigned blocks_for(int64_t items, int64_t items_per_block) {
  return static_cast<unsigned>((items + items_per_block - 1) / items_per_block);
}

__global__ void upload_kernel(uint4* to, const uint4* from, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads})
    to[i] = from[i];
}

__global__ void embed_kernel(EmbedParams p) {
  const int64_t token = blockIdx.x;
  const __nv_bfloat16* from = as_bf16(p.table) + p.ids[token] * p.hidden;
  float* to = p.out + token * p.hidden;
  for (int64_t h = threadIdx.x; h < p.hidden; h += kThreads) to[h] = __bfloat162float(from[h]);
}

// A row of a length that NormRow has.
template <int32_t kVectors>
__global__ void __launch_bounds__(kThreads) residual_norm_kernel(const __grid_constant__ ResidualNormParams p) {
  NormRow<kVectors> row(p);
  if (p.delta != nullptr) {
    float4 delta[kVectors];
    const auto* from = reinterpret_cast<const float4*>(p.delta + blockIdx.x * p.hidden);
    row.for_each([&](int32_t i, int32_t at) { delta[i] = from[at]; });
    row.add(delta);
  }
  if (p.out != nullptr) row.norm();
}

// A row of any length.
__global__ void residual_norm_any_kernel(ResidualNormParams p) {
  const int64_t row = blockIdx.x * p.hidden;
  float squares = 0;
  for (int64_t h = threadIdx.x; h < p.hidden; h += kThreads) {
    float value = p.residual[row + h];
    if (p.delta != nullptr) {
      value += p.delta[row + h];
      p.residual[row + h] = value;
    }
    squares += value * value;
  }
  if (p.out == nullptr) return;
  const float scale = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(p.hidden) + p.eps);
  for (int64_t h = threadIdx.x; h < p.hidden; h += kThreads)
    as_bf16(p.out)[row + h] = __float2bfloat16_rn(p.residual[row + h] * scale * p.weight[h]);
}

__device__ float load_element(const float* data, int64_t index) { return data[index]; }
__device__ float load_element(const __nv_bfloat16* data, int64_t index) { return __bfloat162float(data[index]); }

template <typename T>
__global__ void swiglu_kernel(SwigluParams p) {
  const auto* x = static_cast<const T*>(p.x);
  const int64_t count = p.tokens * p.width;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    const int64_t token = i / p.width;
    const int64_t at = token * 2 * p.width + (i - token * p.width);
    as_bf16(p.out)[i] = __float2bfloat16_rn(silu(load_element(x, at)) * load_element(x, at + p.width));
  }
}

template <typename T>
__global__ void gather_rows_kernel(GatherRowsParams p) {
  const T* from = static_cast<const T*>(p.x) + p.rows[blockIdx.x] * p.hidden;
  T* to = static_cast<T*>(p.out) + blockIdx.x * p.hidden;
  for (int64_t h = threadIdx.x; h < p.hidden; h += kThreads) to[h] = from[h];
}

__device__ void store_element(float* data, int64_t index, float value) { data[index] = value; }
__device__ void store_element(__nv_bfloat16* data, int64_t index, float value) {
  data[index] = __float2bfloat16_rn(value);
}

template <typename From, typename To>
__global__ void convert_kernel(ConvertParams p) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < p.count; i += gridDim.x * int64_t{kThreads})
    store_element(static_cast<To*>(p.out), i, load_element(static_cast<const From*>(p.x), i));
}

// One block a token: its k rows in the order of k.
template <typename T>
__global__ void combine_kernel(CombineParams p) {
  const auto* x = static_cast<const T*>(p.x);
  const int64_t token = blockIdx.x;
  const float* weights = p.weights + token * p.k;
  const int64_t* rows = p.rows + token * p.k;
  for (int64_t h = threadIdx.x; h < p.hidden; h += kThreads) {
    float sum = 0;
    for (int64_t j = 0; j < p.k; ++j) sum += weights[j] * load_element(x, rows[j] * p.hidden + h);
    p.out[token * p.hidden + h] = sum;
  }
}

__global__ void simple_linear_kernel(SimpleLinearParams p) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= p.tokens * p.n) return;
  const __nv_bfloat16* x = as_bf16(p.x) + i / p.n * p.k;
  const __nv_bfloat16* weight = as_bf16(p.weight) + i % p.n * p.k;
  float sum = 0;
  for (int64_t k = 0; k < p.k; ++k) sum += __bfloat162float(x[k]) * __bfloat162float(weight[k]);
  if (p.out_is_f32)
    static_cast<float*>(p.out)[i] = p.add ? __fadd_rn(static_cast<float*>(p.out)[i], sum) : sum;
  else
    static_cast<__nv_bfloat16*>(p.out)[i] = __float2bfloat16_rn(sum);
}

}  // namespace

void launch_upload(void* to, const void* from, size_t size_bytes, cudaStream_t stream) {
  constexpr int64_t kBlocksMax = 64;
  const auto count = static_cast<int64_t>((size_bytes + sizeof(uint4) - 1) / sizeof(uint4));
  const unsigned blocks = std::min<unsigned>(kBlocksMax, blocks_for(count, kThreads));
  upload_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<uint4*>(to), static_cast<const uint4*>(from), count);
}

void launch_embed(const EmbedParams& params, cudaStream_t stream) {
  embed_kernel<<<static_cast<unsigned>(params.tokens), kThreads, 0, stream>>>(params);
}

void launch_residual_norm(const ResidualNormParams& params, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(params.tokens);
  if (params.hidden % 4 != 0 || params.hidden > kNormRowMax)
    residual_norm_any_kernel<<<blocks, kThreads, 0, stream>>>(params);
  else
    for_row_of(params.hidden, [&](auto vectors) {
      residual_norm_kernel<decltype(vectors)::value><<<blocks, kThreads, 0, stream>>>(params);
    });
}

void launch_swiglu(const SwigluParams& params, cudaStream_t stream) {
  constexpr int64_t kBlocksMax = 1 << 16;
  const unsigned blocks = std::min<unsigned>(kBlocksMax, blocks_for(params.tokens * params.width, kThreads));
  if (params.x_is_f32)
    swiglu_kernel<float><<<blocks, kThreads, 0, stream>>>(params);
  else
    swiglu_kernel<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(params);
}

void launch_gather_rows(const GatherRowsParams& params, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(params.count);
  if (params.is_f32)
    gather_rows_kernel<float><<<blocks, kThreads, 0, stream>>>(params);
  else
    gather_rows_kernel<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(params);
}

void launch_convert(const ConvertParams& params, cudaStream_t stream) {
  constexpr int64_t kBlocksMax = 1 << 16;
  const unsigned blocks = std::min<unsigned>(kBlocksMax, blocks_for(params.count, kThreads));
  if (params.x_is_f32 && params.out_is_f32)
    convert_kernel<float, float><<<blocks, kThreads, 0, stream>>>(params);
  else if (params.x_is_f32)
    convert_kernel<float, __nv_bfloat16><<<blocks, kThreads, 0, stream>>>(params);
  else if (params.out_is_f32)
    convert_kernel<__nv_bfloat16, float><<<blocks, kThreads, 0, stream>>>(params);
  else
    convert_kernel<__nv_bfloat16, __nv_bfloat16><<<blocks, kThreads, 0, stream>>>(params);
}

void launch_combine(const CombineParams& params, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(params.tokens);
  if (params.x_is_f32)
    combine_kernel<float><<<blocks, kThreads, 0, stream>>>(params);
  else
    combine_kernel<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(params);
}

void launch_simple_linear(const SimpleLinearParams& params, cudaStream_t stream) {
  simple_linear_kernel<<<blocks_for(params.tokens * params.n, kThreads), kThreads, 0, stream>>>(params);
}

}  // namespace zp::cuda
