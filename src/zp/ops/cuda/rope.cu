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

// Sixteen elements of a head of 128: eight neighbouring ones of the first half, and those of the second half that they
// turn with. So eight lanes have a head, a warp four, and no lane needs another's elements.
struct HeadPart {
  uint4 low;
  uint4 high;
};

// Eight f32 values a part, laid out so that the lanes of a quarter of a warp read shared memory without conflicts:
// lane i's first four are first[i], its last four second[i].
struct Spread {
  float4 first[8];
  float4 second[8];

  __device__ void set(int32_t element, float value) {
    float4* half = element % 8 < 4 ? first : second;
    reinterpret_cast<float*>(half + element / 8)[element % 4] = value;
  }
  __device__ void get(int32_t part, float (&to)[8]) const {
    const float4 a = first[part];
    const float4 b = second[part];
    const float values[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int32_t i = 0; i < 8; ++i) to[i] = values[i];
  }
};

// What a warp of rope_128_kernel does: up to kRounds times four neighbouring heads of one token.
class Rope128 {
 public:
  static constexpr int32_t kHeadDim = 128;
  static constexpr int32_t kHalf = kHeadDim / 2;
  static constexpr int32_t kHeadsAtOnce = 4;
  static constexpr int32_t kRounds = 6;

  struct Shared {
    Spread q_norm[2];  // of the first and the second half
    Spread k_norm[2];
    Spread cosines[kThreads / kWarp];  // a warp's own
    Spread sines[kThreads / kWarp];
  };

  // The warp's token, and its heads [first_head, end_head).
  __device__ Rope128(const RopeParams& p, Shared& shared, int64_t token, int32_t first_head, int32_t end_head)
      : p_(p),
        shared_(shared),
        token_(token),
        lane_(static_cast<int32_t>(threadIdx.x) % kWarp),
        part_(lane_ % 8),
        head_(first_head + lane_ / 8),
        end_head_(token < p.tokens ? end_head : 0) {}

  // Called by all warps of the block, which meet in it. What is loaded first arrives while norm weights are shared and
  // sines computed; from then on a warp works on four heads while it waits for the next four and those after them. Two
  // variables take turns, since copying one to the other would wait for what is on its way.
  __device__ void run() {
    HeadPart even = load(head_);
    HeadPart odd = load(head_ + kHeadsAtOnce);
    share_norms();
    if (token_ >= p_.tokens) return;
    find_turns();
    while (__any_sync(kAllLanes, head_ < end_head_)) {
      work_on(even);
      work_on(odd);
    }
  }

 private:
  static constexpr uint32_t kAllLanes = 0xffffffffu;

  __device__ void share_norms() {
    const auto i = static_cast<int32_t>(threadIdx.x);
    if (i < kHeadDim) {
      const int32_t half = i / kHalf;
      if (p_.q_norm != nullptr) shared_.q_norm[half].set(i % kHalf, p_.q_norm[i]);
      if (p_.k_norm != nullptr) shared_.k_norm[half].set(i % kHalf, p_.k_norm[i]);
    }
    __syncthreads();
  }

  // Zeros where there is no head.
  __device__ HeadPart load(int32_t head) const {
    if (head >= end_head_) return {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
    const int32_t heads = p_.q_heads + 2 * p_.kv_heads;
    const auto* from =
        reinterpret_cast<const uint4*>(static_cast<const Bits16*>(p_.qkv) + (token_ * heads + head) * kHeadDim);
    return {__ldcs(from + part_), __ldcs(from + 8 + part_)};  // read once
  }

  // Sine and cosine of the token's 64 angles, two a lane; each lane then takes the eight of its elements.
  __device__ void find_turns() {
    const auto warp = static_cast<int32_t>(threadIdx.x) / kWarp;
    const auto position = static_cast<float>(p_.positions[token_]);
    for (int32_t i = lane_; i < kHalf; i += kWarp) {
      float sine = 0;
      float cosine = 0;
      sincosf(position * p_.inverse_frequencies[i], &sine, &cosine);
      shared_.cosines[warp].set(i, cosine);
      shared_.sines[warp].set(i, sine);
    }
    __syncwarp();
    shared_.cosines[warp].get(part_, cosines_);
    shared_.sines[warp].get(part_, sines_);
  }

  // Makes `part` what comes two rounds later, and goes on to the next round.
  __device__ void work_on(HeadPart& part) {
    float low[8];
    float high[8];
    unpack(part.low, low);
    unpack(part.high, high);
    part = load(head_ + 2 * kHeadsAtOnce);
    const int32_t head = head_;
    head_ += kHeadsAtOnce;
    float squares = 0;
#pragma unroll
    for (int32_t i = 0; i < 8; ++i) squares += low[i] * low[i] + high[i] * high[i];
      // Over the eight lanes of a head. All lanes of the warp take part, whatever their head is.
#pragma unroll
    for (int32_t lanes = 4; lanes > 0; lanes /= 2) squares += __shfl_xor_sync(kAllLanes, squares, lanes);
    if (head >= end_head_) return;
    if (head >= p_.q_heads + p_.kv_heads) {
      store(p_.v, p_.kv_heads, head - p_.q_heads - p_.kv_heads, {pack(low), pack(high)});
      return;
    }
    const bool is_query = head < p_.q_heads;
    if ((is_query ? p_.q_norm : p_.k_norm) != nullptr) {
      const float scale = rsqrtf(squares / static_cast<float>(kHeadDim) + p_.eps);
      const Spread* weights = is_query ? shared_.q_norm : shared_.k_norm;
      multiply(low, scale, weights[0]);
      multiply(high, scale, weights[1]);
    }
    turn(low, high);
    const HeadPart turned{pack(low), pack(high)};
    if (is_query)
      store(p_.q, p_.q_heads, head, turned);
    else
      store(p_.k, p_.kv_heads, head - p_.q_heads, turned);
  }

  __device__ static void unpack(const uint4& bits, float (&to)[8]) {
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int32_t i = 0; i < 4; ++i) {
      const float2 pair = unpack_bf16(words[i]);
      to[2 * i] = pair.x;
      to[2 * i + 1] = pair.y;
    }
  }

  __device__ static uint4 pack(const float (&values)[8]) {
    return make_uint4(pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]), pack_bf16(values[4], values[5]),
                      pack_bf16(values[6], values[7]));
  }

  __device__ void multiply(float (&values)[8], float scale, const Spread& weights) const {
    float weight[8];
    weights.get(part_, weight);
#pragma unroll
    for (int32_t i = 0; i < 8; ++i) values[i] = values[i] * scale * weight[i];
  }

  __device__ void turn(float (&low)[8], float (&high)[8]) const {
#pragma unroll
    for (int32_t i = 0; i < 8; ++i) {
      const float first = low[i];
      low[i] = first * cosines_[i] - high[i] * sines_[i];
      high[i] = high[i] * cosines_[i] + first * sines_[i];
    }
  }

  __device__ void store(Bits16* out, int32_t heads, int32_t head, const HeadPart& made) const {
    auto* to = reinterpret_cast<uint4*>(out + (token_ * heads + head) * kHeadDim);
    to[part_] = made.low;
    to[8 + part_] = made.high;
  }

  const RopeParams& p_;
  Shared& shared_;
  int64_t token_;
  int32_t lane_;
  int32_t part_;  // which sixteen elements of its head are this lane's
  int32_t head_;
  int32_t end_head_;
  float cosines_[8];
  float sines_[8];
};

// A warp takes `heads_a_warp` neighbouring heads of a token, a block those of eight tokens.
__global__ void __launch_bounds__(kThreads, 3)
    rope_128_kernel(const __grid_constant__ RopeParams p, int32_t heads_a_warp) {
  __shared__ Rope128::Shared shared;
  const int64_t token = blockIdx.x * int64_t{kThreads / kWarp} + threadIdx.x / kWarp;
  const int32_t first = static_cast<int32_t>(blockIdx.y) * heads_a_warp;
  Rope128(p, shared, token, first, min(first + heads_a_warp, p.q_heads + 2 * p.kv_heads)).run();
}

// Any division of the heads among warps gives the same bits.
void launch_128(const RopeParams& params, cudaStream_t stream) {
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t rounds = ceil_div(params.q_heads + 2 * params.kv_heads, Rope128::kHeadsAtOnce);
  const int64_t warps_a_token = ceil_div(rounds, Rope128::kRounds);
  const int64_t heads_a_warp = ceil_div(rounds, warps_a_token) * Rope128::kHeadsAtOnce;
  const dim3 blocks(static_cast<unsigned>(ceil_div(params.tokens, kThreads / kWarp)),
                    static_cast<unsigned>(warps_a_token));
  rope_128_kernel<<<blocks, kThreads, 0, stream>>>(params, static_cast<int32_t>(heads_a_warp));
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
  const auto tokens = static_cast<unsigned>(params.tokens);
  if (params.qkv_is_f32)
    rope_kernel<float><<<tokens, kThreads, 0, stream>>>(params);
  else if (params.head_dim == Rope128::kHeadDim)
    launch_128(params, stream);
  else
    rope_kernel<Bits16><<<tokens, kThreads, 0, stream>>>(params);
}

void launch_store_kv(const StoreKvParams& params, cudaStream_t stream) {
  store_kv_kernel<<<dim3(static_cast<unsigned>(params.count), 2), kThreads, 0, stream>>>(params);
}

}  // namespace zp::cuda
