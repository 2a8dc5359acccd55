// The output head on a slice of the vocabulary: running log-sum-exp of each row, and the logits of candidates.
#include <cmath>

#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/kernels.h"

namespace zp::cuda {
namespace {

constexpr int32_t kThreads = 512;
constexpr int32_t kWarps = kThreads / kWarp;

// One block a row. Sums are in double: a vocabulary is long, and this is a small part of the head's work.
__global__ void head_reduce_kernel(HeadReduceParams p) {
  __shared__ float warp_tops[kWarps];
  __shared__ double warp_sums[kWarps];
  const int64_t row = blockIdx.x;
  const float* logits = p.logits + row * p.width;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / kWarp;

  float top = -INFINITY;
  int32_t nan = 0;
  for (int64_t i = threadIdx.x; i < p.width; i += kThreads) {
    const float logit = logits[i];
    nan |= isnan(logit) ? 1 : 0;
    top = fmaxf(top, logit);
  }
  nan = __syncthreads_or(nan);
  top = warp_max(top);
  if (lane == 0) warp_tops[warp] = top;
  __syncthreads();
  for (int32_t w = 0; w < kWarps; ++w) top = fmaxf(top, warp_tops[w]);

  // Differences of infinities are no numbers, yet the result is clear.
  double sum = 0;
  if (!isinf(top))
    for (int64_t i = threadIdx.x; i < p.width; i += kThreads) sum += static_cast<double>(expf(logits[i] - top));
  sum = warp_sum(sum);
  if (lane == 0) warp_sums[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = 0;
  for (int32_t w = 0; w < kWarps; ++w) sum += warp_sums[w];

  if (!p.first) {
    nan |= p.nans[row];
    const float old_top = p.maxima[row];
    const float new_top = fmaxf(top, old_top);
    const double old_sum = isinf(old_top) ? 0 : p.sums[row] * exp(static_cast<double>(old_top) - new_top);
    const double new_sum = isinf(top) ? 0 : sum * exp(static_cast<double>(top) - new_top);
    sum = old_sum + new_sum;
    top = new_top;
  }
  p.nans[row] = nan;
  p.maxima[row] = top;
  p.sums[row] = sum;
  if (!p.last) return;
  float result = isinf(top) ? top : static_cast<float>(static_cast<double>(top) + log(sum));
  if (nan != 0) result = NAN;
  p.log_sum_exp[row] = result;
}

__global__ void head_pick_kernel(HeadPickParams p) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= p.count) return;
  const HeadCandidate candidate = p.candidates[i];
  const int64_t column = candidate.id - p.begin;
  if (column >= 0 && column < p.width) p.logits[i] = p.slice[candidate.row * p.width + column];
}

}  // namespace

void launch_head_reduce(const HeadReduceParams& params, cudaStream_t stream) {
  head_reduce_kernel<<<static_cast<unsigned>(params.rows), kThreads, 0, stream>>>(params);
}

void launch_head_pick(const HeadPickParams& params, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((params.count + kThreads - 1) / kThreads);
  head_pick_kernel<<<blocks, kThreads, 0, stream>>>(params);
}

}  // namespace zp::cuda
