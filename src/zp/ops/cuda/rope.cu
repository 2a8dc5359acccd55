// Splits the fused projection, norms and rotates heads, stores keys and values; and keeps rows of keys and values.
#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/kernels.h"

namespace zp::cuda {
namespace {

constexpr int32_t kThreads = 256;
constexpr int32_t kHalfMax = 128;                 // half a head
constexpr int32_t kPairs = kHalfMax / 2 / kWarp;  // of neighbouring elements, a lane

// One warp a head: lane l has elements 2l + 64i, 2l + 64i + 1 of both halves.
__device__ void rotate_head(const float* head, const float* norm, float eps, int32_t half, const float2* turns,
                            Bits16* out) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  float2 low[kPairs];
  float2 high[kPairs];
  float squares = 0;
#pragma unroll
  for (int32_t i = 0; i < kPairs; ++i) {
    const int32_t at = 2 * (lane + kWarp * i);
    if (at >= half) continue;
    low[i] = *reinterpret_cast<const float2*>(head + at);
    high[i] = *reinterpret_cast<const float2*>(head + half + at);
    squares += low[i].x * low[i].x + low[i].y * low[i].y + high[i].x * high[i].x + high[i].y * high[i].y;
  }
  if (norm != nullptr) {
    const float scale = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(2 * half) + eps);
#pragma unroll
    for (int32_t i = 0; i < kPairs; ++i) {
      const int32_t at = 2 * (lane + kWarp * i);
      if (at >= half) continue;
      const float2 low_weight = *reinterpret_cast<const float2*>(norm + at);
      const float2 high_weight = *reinterpret_cast<const float2*>(norm + half + at);
      low[i] = make_float2(low[i].x * scale * low_weight.x, low[i].y * scale * low_weight.y);
      high[i] = make_float2(high[i].x * scale * high_weight.x, high[i].y * scale * high_weight.y);
    }
  }
#pragma unroll
  for (int32_t i = 0; i < kPairs; ++i) {
    const int32_t at = 2 * (lane + kWarp * i);
    if (at >= half) continue;
    const float2 first = turns[at];  // cosine, sine
    const float2 second = turns[at + 1];
    *reinterpret_cast<uint32_t*>(out + at) =
        pack_bf16(low[i].x * first.x - high[i].x * first.y, low[i].y * second.x - high[i].y * second.y);
    *reinterpret_cast<uint32_t*>(out + half + at) =
        pack_bf16(high[i].x * first.x + low[i].x * first.y, high[i].y * second.x + low[i].y * second.y);
  }
}

// One block a token.
__global__ void rope_kernel(RopeParams p) {
  __shared__ float2 turns[kHalfMax];
  const int64_t token = blockIdx.x;
  const int32_t half = p.head_dim / 2;
  const auto position = static_cast<float>(p.positions[token]);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < half; i += kThreads) {
    float sine = 0;
    float cosine = 0;
    sincosf(position * p.inverse_frequencies[i], &sine, &cosine);
    turns[i] = make_float2(cosine, sine);
  }
  __syncthreads();
  const int32_t heads = p.q_heads + 2 * p.kv_heads;
  const float* row = p.qkv + token * heads * p.head_dim;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  for (int32_t h = static_cast<int32_t>(threadIdx.x) / kWarp; h < heads; h += kThreads / kWarp) {
    const float* head = row + int64_t{h} * p.head_dim;
    if (h < p.q_heads) {
      rotate_head(head, p.q_norm, p.eps, half, turns, p.q + (token * p.q_heads + h) * p.head_dim);
    } else if (h < p.q_heads + p.kv_heads) {
      rotate_head(head, p.k_norm, p.eps, half, turns, p.k + (token * p.kv_heads + h - p.q_heads) * p.head_dim);
    } else {
      Bits16* out = p.v + (token * p.kv_heads + h - p.q_heads - p.kv_heads) * p.head_dim;
      for (int32_t at = 2 * lane; at < p.head_dim; at += 2 * kWarp) {
        const float2 pair = *reinterpret_cast<const float2*>(head + at);
        *reinterpret_cast<uint32_t*>(out + at) = pack_bf16(pair.x, pair.y);
      }
    }
  }
}

// One block a store and kind.
__global__ void store_kv_kernel(StoreKvParams p) {
  const KvStoreEntry entry = p.stores[blockIdx.x];
  const bool keys = blockIdx.y == 0;
  const auto* from = reinterpret_cast<const uint4*>((keys ? p.k : p.v) + entry.row * p.row_bytes);
  auto* to = reinterpret_cast<uint4*>(keys ? entry.k : entry.v);
  const auto count = static_cast<int64_t>(entry.tokens * p.row_bytes / sizeof(uint4));
  for (int64_t i = threadIdx.x; i < count; i += kThreads) to[i] = from[i];
}

}  // namespace

void launch_rope(const RopeParams& params, cudaStream_t stream) {
  rope_kernel<<<static_cast<unsigned>(params.tokens), kThreads, 0, stream>>>(params);
}

void launch_store_kv(const StoreKvParams& params, cudaStream_t stream) {
  store_kv_kernel<<<dim3(static_cast<unsigned>(params.count), 2), kThreads, 0, stream>>>(params);
}

}  // namespace zp::cuda
