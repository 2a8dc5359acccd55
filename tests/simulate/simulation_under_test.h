// A small modelled device, and workloads for it.
#pragma once

#include "zp/simulate/simulator.h"

namespace zp::test {

/// Two layers; every token costs the same, attention aside.
inline ModelShape simulated_shape() {
  return {.family = "qwen3_moe",
          .layers = 2,
          .hidden = 8,
          .query_heads = 2,
          .kv_heads = 1,
          .head_dim = 4,
          .vocabulary = 16,
          .max_positions = 1 << 17,
          .experts = 4,
          .experts_per_token = 2,
          .expert_intermediate = 8,
          .feed_forward = {FeedForward::kMoe, FeedForward::kMoe}};
}

/// Attention is free, so that a token takes 1 microsecond a layer: 448 FLOPs dense, 768 of experts.
inline SimulationSpec simulation(int32_t ranks, int64_t target_tokens) {
  return {.shape = simulated_shape(),
          .step = {.layers = 2,
                   .streamed_layers = 1,
                   .transfer_seconds = 0,
                   .rates = {.attention = 1e30, .dense = 448e6 * 2, .expert = 768e6 * 2}},
          .ranks = ranks,
          .pool_blocks = 4096,
          .target_seconds = static_cast<double>(target_tokens) * 1e-6,
          .step_tokens_max = 4 * target_tokens};
}

/// `groups` prefixes of `prefix` tokens, each with `each` questions of `own` tokens, group after group.
inline Workload grouped(int32_t groups, int32_t each, int32_t prefix, int32_t own) {
  Workload w{.name = "grouped", .parts = {"all"}, .requests = {}};
  for (int32_t g = 0; g < groups; ++g)
    for (int32_t i = 0; i < each; ++i)
      w.requests.push_back(
          {.pieces = {{.text = static_cast<uint64_t>(g), .offset = 0, .count = prefix},
                      {.text = static_cast<uint64_t>(1'000'000 + g * each + i), .offset = 0, .count = own}}});
  return w;
}

}  // namespace zp::test
