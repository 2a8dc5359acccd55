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
  int64_t dense = 0;        ///< 3 * 2 * H * I; in a MoE layer that of its shared experts, if any

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

/// Likewise where a query sees itself and the `window` - 1 tokens before it.
[[nodiscard]] int64_t visible_pairs_in_window(AttentionSpan span, int64_t window);

/// Scores (Q K^T) and the weighted sum (P V) of one layer that sees everything: 4 * Q * D FLOPs a visible pair.
[[nodiscard]] int64_t attention_flops(const ModelShape& shape, AttentionSpan span);
/// Of all layers, those with a sliding window seeing less.
[[nodiscard]] int64_t attention_flops_all_layers(const ModelShape& shape, AttentionSpan span);

/// Weights by use. The embedding table is counted once where the output head shares it.
struct ParameterCounts {
  int64_t embedding = 0;
  int64_t head = 0;  ///< 0 when tied
  int64_t attention = 0;
  int64_t router = 0;
  int64_t experts = 0;
  int64_t dense = 0;  ///< dense feed-forwards and shared experts
  int64_t norms = 0;

  [[nodiscard]] int64_t total() const noexcept {
    return embedding + head + attention + router + experts + dense + norms;
  }
};
[[nodiscard]] ParameterCounts parameter_counts(const ModelShape& shape);
/// Parameters that one token's forward pass uses: all but the experts that it is not routed to.
[[nodiscard]] int64_t active_parameters(const ModelShape& shape);

/// Bytes of one expert's three matrices, scales and padding not included.
[[nodiscard]] int64_t expert_bytes(const ModelShape& shape, int64_t bytes_per_element);
/// Bytes of all experts of one MoE layer.
[[nodiscard]] int64_t layer_expert_bytes(const ModelShape& shape, int64_t bytes_per_element);
/// Bytes of one layer's other matrices: projections, and the router (with shared experts) or the dense feed-forward.
[[nodiscard]] int64_t layer_resident_bytes(const ModelShape& shape, FeedForward kind, int64_t bytes_per_element);
/// Bytes of the keys and values of one token in one layer; with latent attention, of what they are unfolded from.
[[nodiscard]] int64_t layer_kv_bytes_per_token(const ModelShape& shape, int64_t bytes_per_element);
/// Bytes of the keys and values of one token in all layers. Sliding layers count like others: a prefix that is kept for
/// reuse is kept whole.
[[nodiscard]] int64_t kv_bytes_per_token(const ModelShape& shape, int64_t bytes_per_element);

}  // namespace zp
