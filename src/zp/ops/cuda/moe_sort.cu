// Sorts assignments by expert, and sums what the experts made of a token.
#include <algorithm>

#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/moe_kernels.h"

namespace zp::cuda {
namespace {

constexpr int32_t kThreads = 256;
constexpr int64_t kPerBlock = 2048;  // assignments that a block of count or place looks at

// Counts each expert's assignments. Only whole counts are added, so their order does not matter.
__global__ void count_kernel(MoeSortParams p) {
  extern __shared__ int32_t counts[];
  for (int32_t e = static_cast<int32_t>(threadIdx.x); e < p.experts; e += kThreads) counts[e] = 0;
  __syncthreads();
  const int64_t begin = blockIdx.x * kPerBlock;
  const int64_t end = min(begin + kPerBlock, p.assignments);
  for (int64_t a = begin + threadIdx.x; a < end; a += kThreads) atomicAdd(&counts[p.ids[a]], 1);
  __syncthreads();
  for (int32_t e = static_cast<int32_t>(threadIdx.x); e < p.experts; e += kThreads)
    if (counts[e] != 0) atomicAdd(&p.counts[e], counts[e]);
}

// Prefix sums of the counts, in slots and in tiles. One block of as many threads as there may be experts.
__global__ void offsets_kernel(MoeSortParams p) {
  __shared__ int2 sums[kExpertsMax];
  const int32_t e = static_cast<int32_t>(threadIdx.x);
  const int32_t count = e < p.experts ? p.counts[e] : 0;
  sums[e] = make_int2(count, (count + kTileM - 1) / kTileM);
  __syncthreads();
  for (int32_t step = 1; step < kExpertsMax; step *= 2) {
    const int2 before = e >= step ? sums[e - step] : make_int2(0, 0);
    __syncthreads();
    sums[e].x += before.x;
    sums[e].y += before.y;
    __syncthreads();
  }
  if (e >= p.experts) return;
  if (e == 0) p.offsets[0] = p.tile_starts[0] = 0;
  p.offsets[e + 1] = sums[e].x;
  p.tile_starts[e + 1] = sums[e].y;
  p.cursors[e] = sums[e].x - count;
}

// Gives each assignment its slot. A block reserves its range of every expert at once.
__global__ void place_kernel(MoeSortParams p) {
  extern __shared__ int32_t shared[];
  int32_t* counts = shared;
  int32_t* next = shared + p.experts;
  for (int32_t e = static_cast<int32_t>(threadIdx.x); e < p.experts; e += kThreads) counts[e] = 0;
  __syncthreads();
  const int64_t begin = blockIdx.x * kPerBlock;
  const int64_t end = min(begin + kPerBlock, p.assignments);
  for (int64_t a = begin + threadIdx.x; a < end; a += kThreads) atomicAdd(&counts[p.ids[a]], 1);
  __syncthreads();
  for (int32_t e = static_cast<int32_t>(threadIdx.x); e < p.experts; e += kThreads)
    next[e] = counts[e] == 0 ? 0 : atomicAdd(&p.cursors[e], counts[e]);
  __syncthreads();
  for (int64_t a = begin + threadIdx.x; a < end; a += kThreads) {
    const int32_t slot = atomicAdd(&next[p.ids[a]], 1);
    p.slots[a] = slot;
    p.tokens[slot] = static_cast<int32_t>(a / p.chosen);
  }
}

// One block a token; a thread sums eight elements at a time, and asks for kAtOnce rows before it adds them.
__global__ void combine_kernel(MoeCombineParams p) {
  constexpr int32_t kAtOnce = 4;
  const int64_t token = blockIdx.x;
  const int32_t* slots = p.slots + token * p.chosen;
  const float* weights = p.weights + token * p.chosen;
  for (int64_t h = threadIdx.x * 8; h < p.hidden; h += kThreads * 8) {
    float sum[8] = {};
    for (int32_t first = 0; first < p.chosen; first += kAtOnce) {
      uint4 rows[kAtOnce];
      float weight[kAtOnce];
#pragma unroll
      for (int32_t j = 0; j < kAtOnce; ++j) {
        if (first + j >= p.chosen) continue;
        weight[j] = weights[first + j];
        rows[j] = *reinterpret_cast<const uint4*>(p.y + slots[first + j] * p.y_stride + h);
      }
#pragma unroll
      for (int32_t j = 0; j < kAtOnce; ++j) {
        if (first + j >= p.chosen) continue;
        const uint32_t words[4] = {rows[j].x, rows[j].y, rows[j].z, rows[j].w};
#pragma unroll
        for (int32_t i = 0; i < 4; ++i) {
          const float2 pair = unpack_bf16(words[i]);
          sum[2 * i] += weight[j] * pair.x;
          sum[2 * i + 1] += weight[j] * pair.y;
        }
      }
    }
    auto* out = reinterpret_cast<float4*>(p.out + token * p.hidden + h);
    out[0] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    out[1] = make_float4(sum[4], sum[5], sum[6], sum[7]);
  }
}

}  // namespace

void launch_moe_sort(const MoeSortParams& params, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((params.assignments + kPerBlock - 1) / kPerBlock);
  const auto counts_bytes = static_cast<size_t>(params.experts) * sizeof(int32_t);
  (void)cudaMemsetAsync(params.counts, 0, counts_bytes, stream);
  count_kernel<<<blocks, kThreads, counts_bytes, stream>>>(params);
  offsets_kernel<<<1, kExpertsMax, 0, stream>>>(params);
  place_kernel<<<blocks, kThreads, 2 * counts_bytes, stream>>>(params);
}

void launch_moe_combine(const MoeCombineParams& params, cudaStream_t stream) {
  combine_kernel<<<static_cast<unsigned>(params.tokens), kThreads, 0, stream>>>(params);
}

}  // namespace zp::cuda
