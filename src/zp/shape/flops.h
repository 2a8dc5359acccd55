// What a model costs, from its shape alone: FLOPs, parameters and bytes. The scheduler, the planner, the benchmarks and
// the simulator all count with these functions.
//
// A multiply-add is 2 FLOPs. Only matrix products are counted: norms, rotations, softmax, activations, sums of expert
// outputs and the embedding look-up are left out, as in every published figure. Letters are those of model_shape.h;
// S are the tokens that are computed, P the reused tokens before them. All results are exact for sequences of up to
// 2^23 tokens.
#pragma once

#include <cstdint>

#include "zp/shape/model_shape.h"

namespace zp {

/// FLOPs of one token in one layer, by the kind of matrix product.
struct LinearFlops {
  int64_t projections = 0;  ///< query, key, value and output: 2 * H * (Q + 2G) * D + 2 * Q * D * H
  int64_t router = 0;       ///< 2 * H * E; 0 in a dense layer
  int64_t experts = 0;      ///< k * 3 * 2 * H * I; 0 in a dense layer
  int64_t dense = 0;        ///< 3 * 2 * H * I; 0 in a MoE layer

  [[nodiscard]] int64_t total() const noexcept { return projections + router + experts + dense; }
};

/// Linear work of one token in a layer of the given kind.
[[nodiscard]] LinearFlops linear_flops(const ModelShape& shape, FeedForward kind);

/// Linear work of one token in all layers, without the output head.
[[nodiscard]] LinearFlops linear_flops_all_layers(const ModelShape& shape);

/// The output head for one row: 2 * H * V.
[[nodiscard]] int64_t head_flops(const ModelShape& shape);

/// Pairs (query, key) that causal attention sees when `suffix` tokens are computed after `prefix` reused ones:
/// S * P + S * (S + 1) / 2. Argument order is that of the sequence.
struct AttentionSpan {
  int64_t prefix = 0;  ///< P
  int64_t suffix = 0;  ///< S
};
[[nodiscard]] constexpr int64_t visible_pairs(AttentionSpan span) noexcept {
  return span.suffix * span.prefix + span.suffix * (span.suffix + 1) / 2;
}

/// Scores (Q K^T) and the weighted sum (P V) of one layer: 4 * Q * D FLOPs a visible pair.
[[nodiscard]] int64_t attention_flops(const ModelShape& shape, AttentionSpan span);

/// Weights by use. The embedding table is counted once where the output head shares it.
struct ParameterCounts {
  int64_t embedding = 0;
  int64_t head = 0;  ///< 0 when tied
  int64_t attention = 0;
  int64_t router = 0;
  int64_t experts = 0;
  int64_t dense = 0;
  int64_t norms = 0;

  [[nodiscard]] int64_t total() const noexcept {
    return embedding + head + attention + router + experts + dense + norms;
  }
};
[[nodiscard]] ParameterCounts parameter_counts(const ModelShape& shape);

/// Bytes of one expert's three matrices, scales and padding not included.
[[nodiscard]] int64_t expert_bytes(const ModelShape& shape, int64_t bytes_per_element);
/// Bytes of all experts of one MoE layer.
[[nodiscard]] int64_t layer_expert_bytes(const ModelShape& shape, int64_t bytes_per_element);
/// Bytes of one layer's other matrices: projections, and the router or the dense feed-forward.
[[nodiscard]] int64_t layer_resident_bytes(const ModelShape& shape, FeedForward kind, int64_t bytes_per_element);
/// Bytes of the keys and values of one token in one layer.
[[nodiscard]] int64_t layer_kv_bytes_per_token(const ModelShape& shape, int64_t bytes_per_element);
/// Bytes of the keys and values of one token in all layers.
[[nodiscard]] int64_t kv_bytes_per_token(const ModelShape& shape, int64_t bytes_per_element);

}  // namespace zp
