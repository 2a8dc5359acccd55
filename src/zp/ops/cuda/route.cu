// Softmax over the experts and the k best of them, one warp a token.
#include <cfloat>
#include <cmath>

#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/kernels.h"

namespace zp::cuda {
namespace {

constexpr int32_t kThreads = 128;

// A token's experts from the table, and their weights: a lane an expert, summed in their order.
__device__ void route_drawn(const RouteParams& p, int64_t token, float top, float sum) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int64_t row = drawn_route(p.token_ids[token], p.positions[token], p.table_rows);
  const int32_t id = lane < p.chosen ? p.table[row * p.chosen + lane] : 0;
  const float logit = lane < p.chosen ? p.logits[token * p.experts + id] : -INFINITY;
  // Drawn experts may be far below the top, where exponentials lose digits; the sum of all cancels out.
  const float base = p.normalize ? warp_max(logit) : top;
  const float weight = expf(logit - base) / sum;
  float chosen_sum = 0;
  for (int32_t j = 0; j < p.chosen; ++j) chosen_sum += __shfl_sync(0xffffffffu, weight, j);
  if (lane >= p.chosen) return;
  p.ids[token * p.chosen + lane] = id;
  p.weights[token * p.chosen + lane] = p.normalize ? weight / chosen_sum : weight;
}

// Lane l has the logits of experts l + 32i, i < kPerLane.
template <int32_t kPerLane>
__global__ void route_kernel(RouteParams p) {
  const int64_t token = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / kWarp;
  if (token >= p.tokens) return;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const float* logits = p.logits + token * p.experts;
  float values[kPerLane];
  float top = -INFINITY;
#pragma unroll
  for (int32_t i = 0; i < kPerLane; ++i) {
    const int32_t expert = lane + kWarp * i;
    values[i] = expert < p.experts ? logits[expert] : -INFINITY;
    top = fmaxf(top, values[i]);  // of NaN and a number, the number
  }
  top = warp_max(top);
  float sum = 0;
#pragma unroll
  for (int32_t i = 0; i < kPerLane; ++i)
    if (lane + kWarp * i < p.experts) sum += expf(values[i] - top);
  sum = warp_sum(sum);

  if (p.table != nullptr) return route_drawn(p, token, top, sum);

  uint32_t taken = 0;       // bit i: values[i] has been chosen
  float chosen_weight = 0;  // of the choice whose number is this lane's
  int32_t chosen_id = 0;
  float chosen_sum = 0;
  for (int32_t j = 0; j < p.chosen; ++j) {
    float best = -INFINITY;
    float best_logit = 0;  // NaN where best is its rank
    int32_t best_id = INT32_MAX;
#pragma unroll
    for (int32_t i = 0; i < kPerLane; ++i) {
      const int32_t expert = lane + kWarp * i;
      const float rank = isnan(values[i]) ? -INFINITY : values[i];
      const bool open = expert < p.experts && (taken >> i & 1u) == 0;
      if (open && (rank > best || best_id == INT32_MAX)) {
        best = rank;
        best_logit = values[i];
        best_id = expert;
      }
    }
    for (int32_t lanes = kWarp / 2; lanes > 0; lanes /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, best, lanes);
      const float other_logit = __shfl_xor_sync(0xffffffffu, best_logit, lanes);
      const int32_t other_id = __shfl_xor_sync(0xffffffffu, best_id, lanes);
      if (other_id != INT32_MAX && (best_id == INT32_MAX || other > best || (other == best && other_id < best_id))) {
        best = other;
        best_logit = other_logit;
        best_id = other_id;
      }
    }
    if (best_id % kWarp == lane) taken |= 1u << (best_id / kWarp);
    const float weight = expf(best_logit - top) / sum;
    chosen_sum += weight;
    if (lane == j) {
      chosen_weight = weight;
      chosen_id = best_id;
    }
  }
  if (lane >= p.chosen) return;
  p.ids[token * p.chosen + lane] = chosen_id;
  p.weights[token * p.chosen + lane] = p.normalize ? chosen_weight / chosen_sum : chosen_weight;
}

}  // namespace

void launch_route(const RouteParams& params, cudaStream_t stream) {
  constexpr int64_t kTokens = kThreads / kWarp;
  const auto blocks = static_cast<unsigned>((params.tokens + kTokens - 1) / kTokens);
  if (params.experts <= 32)
    route_kernel<1><<<blocks, kThreads, 0, stream>>>(params);
  else if (params.experts <= 128)
    route_kernel<4><<<blocks, kThreads, 0, stream>>>(params);
  else if (params.experts <= 512)
    route_kernel<16><<<blocks, kThreads, 0, stream>>>(params);
  else
    route_kernel<kExpertsMax / kWarp><<<blocks, kThreads, 0, stream>>>(params);
}

}  // namespace zp::cuda
