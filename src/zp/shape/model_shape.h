// What a model is made of, in numbers: everything the scheduler, the planner and the loader need to know of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zp {

/// The feed-forward part of a layer.
enum class FeedForward : uint8_t { kDense, kMoe };

/// What some models have beyond the engine's reach. These numbers only make FLOPs, bytes and plans right: no family
/// computes with them, and a checkpoint that needs them is refused. Zero: the model has no such thing.
struct PlanningFeatures {
  // Multi-head latent attention (MLA). With it, query_heads and kv_heads are equal and head_dim is the part of a query
  // or key that is not rotated. Counted as prefill runs it: keys and values are unfolded, and their latents are kept.
  int32_t latent_query_rank = 0;
  int32_t latent_kv_rank = 0;
  int32_t latent_rope_dim = 0;      ///< the rotated part of a key, one for all heads, and of each query
  int32_t latent_value_dim = 0;     ///< of each head
  int32_t shared_intermediate = 0;  ///< I of all shared experts of a MoE layer together: they see every token
  int32_t sliding_window = 0;       ///< a query of a sliding layer sees this many tokens, itself included
  int32_t sliding_layers = 0;
  bool attention_sinks = false;  ///< a learnt logit a head; costs nothing that is counted

  [[nodiscard]] bool latent() const noexcept { return latent_kv_rank > 0; }
  friend bool operator==(const PlanningFeatures&, const PlanningFeatures&) = default;
};

/// A decoder-only transformer with grouped-query attention and dense or mixture-of-experts layers.
struct ModelShape {
  std::string family;  ///< "qwen3_moe"
  int32_t layers = 0;
  int32_t hidden = 0;                     ///< H
  int32_t query_heads = 0;                ///< Q
  int32_t kv_heads = 0;                   ///< G; divides Q
  int32_t head_dim = 0;                   ///< D; even
  int32_t vocabulary = 0;                 ///< V
  int32_t max_positions = 0;              ///< longest context the model was made for, in tokens
  int32_t experts = 0;                    ///< E of each MoE layer
  int32_t experts_per_token = 0;          ///< k <= E
  int32_t expert_intermediate = 0;        ///< I of one expert
  int32_t dense_intermediate = 0;         ///< I of a dense layer
  std::vector<FeedForward> feed_forward;  ///< [layers]
  bool normalize_top_k = false;           ///< norm_topk_prob
  bool qk_norm = false;                   ///< RMS norm of each head of q and k
  bool tied_embeddings = false;           ///< the output head is the embedding table
  double rope_theta = 10000.0;
  double norm_eps = 1e-6;
  PlanningFeatures planning{};  ///< of models that are known by name, for planning only

  [[nodiscard]] int32_t moe_layers() const noexcept {
    int32_t count = 0;
    for (const FeedForward kind : feed_forward) count += kind == FeedForward::kMoe ? 1 : 0;
    return count;
  }
};

/// All contradictions found in a shape ("kv_heads 3 does not divide query_heads 4"); empty when there are none.
[[nodiscard]] std::vector<std::string> validate(const ModelShape& shape);

}  // namespace zp
