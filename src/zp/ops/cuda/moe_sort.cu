// Sorts assignments by expert.
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

}  // namespace

void launch_moe_sort(const MoeSortParams& params, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((params.assignments + kPerBlock - 1) / kPerBlock);
  const auto counts_bytes = static_cast<size_t>(params.experts) * sizeof(int32_t);
  (void)cudaMemsetAsync(params.counts, 0, counts_bytes, stream);
  count_kernel<<<blocks, kThreads, counts_bytes, stream>>>(params);
  offsets_kernel<<<1, kExpertsMax, 0, stream>>>(params);
  place_kernel<<<blocks, kThreads, 2 * counts_bytes, stream>>>(params);
}

}  // namespace zp::cuda
