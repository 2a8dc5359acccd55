// Splits the fused projection, norms and rotates heads, stores keys and values; and keeps rows of keys and values.
#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/kernels.h"

namespace zp::cuda {
namespace {

constexpr int32_t kThreads = 256;
constexpr int32_t kHalfMax = 128;                 // half a head
constexpr int32_t kPairs = kHalfMax / 2 / kWarp;  // of neighbouring elements, a lane

__device__ float2 load_2(const float* from) { return *reinterpret_cast<const float2*>(from); }
__device__ float2 load_2(const Bits16* from) { return unpack_bf16(*reinterpret_cast<const uint32_t*>(from)); }
__device__ float4 load_4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ float4 load_4(const Bits16* from) {
  const uint2 bits = *reinterpret_cast<const uint2*>(from);
  const float2 low = unpack_bf16(bits.x);
  const float2 high = unpack_bf16(bits.y);
  return make_float4(low.x, low.y, high.x, high.y);
}

// One warp a head: lane l has elements 2l + 64i, 2l + 64i + 1 of both halves.
template <typename In>
__device__ void rotate_head(const In* head, const float* norm, float eps, int32_t half, const float2* turns,
                            Bits16* out) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  float2 low[kPairs];
  float2 high[kPairs];
  float squares = 0;
#pragma unroll
  for (int32_t i = 0; i < kPairs; ++i) {
    const int32_t at = 2 * (lane + kWarp * i);
    if (at >= half) continue;
    low[i] = load_2(head + at);
    high[i] = load_2(head + half + at);
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
template <typename In>
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
  const In* row = static_cast<const In*>(p.qkv) + token * heads * p.head_dim;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  for (int32_t h = static_cast<int32_t>(threadIdx.x) / kWarp; h < heads; h += kThreads / kWarp) {
    const In* head = row + int64_t{h} * p.head_dim;
    if (h < p.q_heads) {
      rotate_head(head, p.q_norm, p.eps, half, turns, p.q + (token * p.q_heads + h) * p.head_dim);
    } else if (h < p.q_heads + p.kv_heads) {
      rotate_head(head, p.k_norm, p.eps, half, turns, p.k + (token * p.kv_heads + h - p.q_heads) * p.head_dim);
    } else {
      Bits16* out = p.v + (token * p.kv_heads + h - p.q_heads - p.kv_heads) * p.head_dim;
      for (int32_t at = 2 * lane; at < p.head_dim; at += 2 * kWarp) {
        const float2 pair = load_2(head + at);
        *reinterpret_cast<uint32_t*>(out + at) = pack_bf16(pair.x, pair.y);
      }
    }
  }
}

// Heads of 128 elements: a lane has four neighbouring ones of the first half, or of the second.
template <typename In>
class Rope128 {
 public:
  static constexpr int32_t kHeadDim = 128;

  __device__ explicit Rope128(const RopeParams& p)
      : p_(p),
        token_(blockIdx.x),
        heads_(p.q_heads + 2 * p.kv_heads),
        warp_(static_cast<int32_t>(threadIdx.x) / kWarp),
        lane_(static_cast<int32_t>(threadIdx.x) % kWarp) {}

  __device__ void run(float4* cosines, float4* sines) const {
    float4 values[kAtOnce];
    load(warp_, values);  // they arrive while the sines are computed
    find_turns(reinterpret_cast<float*>(cosines), reinterpret_cast<float*>(sines));
    __syncthreads();
    const float4 cosine = cosines[lane_ % kHalfLanes];
    float4 sine = sines[lane_ % kHalfLanes];
    if (lane_ < kHalfLanes) sine = make_float4(-sine.x, -sine.y, -sine.z, -sine.w);
    for (int32_t first = warp_; first < heads_; first += kWarps * kAtOnce) {
      if (first != warp_) load(first, values);
#pragma unroll
      for (int32_t i = 0; i < kAtOnce; ++i)
        if (first + i * kWarps < heads_) turn(first + i * kWarps, values[i], cosine, sine);
    }
  }

 private:
  static constexpr int32_t kWarps = kThreads / kWarp;
  static constexpr int32_t kHalfLanes = kWarp / 2;
  static constexpr int32_t kAtOnce = 5;  // heads of a warp

  __device__ void load(int32_t first, float4 (&values)[kAtOnce]) const {
    const In* row = static_cast<const In*>(p_.qkv) + token_ * heads_ * kHeadDim;
#pragma unroll
    for (int32_t i = 0; i < kAtOnce; ++i) {
      const int32_t head = first + i * kWarps;
      if (head < heads_) values[i] = load_4(row + head * kHeadDim + lane_ * 4);
    }
  }

  __device__ void find_turns(float* cosines, float* sines) const {
    const auto i = static_cast<int32_t>(threadIdx.x);
    if (i >= kHeadDim / 2) return;
    sincosf(static_cast<float>(p_.positions[token_]) * p_.inverse_frequencies[i], &sines[i], &cosines[i]);
  }

  __device__ void turn(int32_t head, float4 x, float4 cosine, float4 sine) const {
    if (head >= p_.q_heads + p_.kv_heads) {
      store(p_.v, p_.kv_heads, head - p_.q_heads - p_.kv_heads, x);
      return;
    }
    const bool is_query = head < p_.q_heads;
    const float* norm = is_query ? p_.q_norm : p_.k_norm;
    if (norm != nullptr) {
      const float squares = warp_sum(x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w);
      const float scale = 1.0f / sqrtf(squares / static_cast<float>(kHeadDim) + p_.eps);
      const float4 weight = reinterpret_cast<const float4*>(norm)[lane_];
      x = make_float4(x.x * scale * weight.x, x.y * scale * weight.y, x.z * scale * weight.z, x.w * scale * weight.w);
    }
    const float4 other = make_float4(other_half(x.x), other_half(x.y), other_half(x.z), other_half(x.w));
    x = make_float4(x.x * cosine.x + other.x * sine.x, x.y * cosine.y + other.y * sine.y,
                    x.z * cosine.z + other.z * sine.z, x.w * cosine.w + other.w * sine.w);
    if (is_query)
      store(p_.q, p_.q_heads, head, x);
    else
      store(p_.k, p_.kv_heads, head - p_.q_heads, x);
  }

  __device__ static float other_half(float value) { return __shfl_xor_sync(0xffffffffu, value, kHalfLanes); }

  __device__ void store(Bits16* out, int32_t heads, int32_t head, float4 x) const {
    reinterpret_cast<uint2*>(out + (token_ * heads + head) * kHeadDim)[lane_] =
        make_uint2(pack_bf16(x.x, x.y), pack_bf16(x.z, x.w));
  }

  const RopeParams& p_;
  int64_t token_;
  int32_t heads_;
  int32_t warp_;
  int32_t lane_;
};

// One block a token.
template <typename In>
__global__ void __launch_bounds__(kThreads, 4) rope_128_kernel(const __grid_constant__ RopeParams p) {
  __shared__ float4 cosines[Rope128<In>::kHeadDim / 8];
  __shared__ float4 sines[Rope128<In>::kHeadDim / 8];
  Rope128<In>(p).run(cosines, sines);
}

template <typename In>
void launch(const RopeParams& params, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(params.tokens);
  if (params.head_dim == Rope128<In>::kHeadDim)
    rope_128_kernel<In><<<blocks, kThreads, 0, stream>>>(params);
  else
    rope_kernel<In><<<blocks, kThreads, 0, stream>>>(params);
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
  if (params.qkv_is_f32)
    launch<float>(params, stream);
  else
    launch<Bits16>(params, stream);
}

void launch_store_kv(const StoreKvParams& params, cudaStream_t stream) {
  store_kv_kernel<<<dim3(static_cast<unsigned>(params.count), 2), kThreads, 0, stream>>>(params);
}

}  // namespace zp::cuda
