// Arithmetic on a model's shape.
#include "zp/shape/flops.h"

#include <algorithm>

namespace zp {
namespace {

// The shape's numbers in 64 bits, under the letters of model_shape.h.
struct Letters {
  int64_t h, q, g, d, v, e, k, i_expert, i_dense;
  int64_t q_rank, kv_rank, rope, value, i_shared;

  explicit Letters(const ModelShape& shape)
      : h(shape.hidden),
        q(shape.query_heads),
        g(shape.kv_heads),
        d(shape.head_dim),
        v(shape.vocabulary),
        e(shape.experts),
        k(shape.experts_per_token),
        i_expert(shape.expert_intermediate),
        i_dense(shape.dense_intermediate),
        q_rank(shape.planning.latent_query_rank),
        kv_rank(shape.planning.latent_kv_rank),
        rope(shape.planning.latent_rope_dim),
        value(shape.planning.latent_value_dim),
        i_shared(shape.planning.shared_intermediate) {}

  [[nodiscard]] int64_t projection_parameters() const {
    if (kv_rank == 0) return h * (q + 2 * g) * d + q * d * h;
    // Down to the latents and up to the heads, for queries (straight up when there is no rank) and for keys and values.
    const int64_t query = q_rank > 0 ? h * q_rank + q_rank * q * (d + rope) : h * q * (d + rope);
    return query + h * (kv_rank + rope) + kv_rank * q * (d + value) + q * value * h;
  }
  // FLOPs of a query and a key that it sees, all heads.
  [[nodiscard]] int64_t pair_flops() const { return kv_rank == 0 ? 4 * q * d : 2 * q * (d + rope) + 2 * q * value; }
  [[nodiscard]] int64_t kv_elements() const { return kv_rank == 0 ? 2 * g * d : kv_rank + rope; }
  [[nodiscard]] int64_t shared_parameters() const { return 3 * h * i_shared; }
  [[nodiscard]] int64_t expert_parameters() const { return 3 * h * i_expert; }
  [[nodiscard]] int64_t dense_parameters() const { return 3 * h * i_dense; }
};

}  // namespace

LinearFlops linear_flops(const ModelShape& shape, FeedForward kind) {
  const Letters l(shape);
  LinearFlops flops{.projections = 2 * l.projection_parameters()};
  if (kind == FeedForward::kMoe) {
    flops.router = 2 * l.h * l.e;
    flops.experts = 2 * l.k * l.expert_parameters();
    flops.dense = 2 * l.shared_parameters();
  } else {
    flops.dense = 2 * l.dense_parameters();
  }
  return flops;
}

LinearFlops linear_flops_all_layers(const ModelShape& shape) {
  LinearFlops sum;
  for (const FeedForward kind : shape.feed_forward) {
    const LinearFlops layer = linear_flops(shape, kind);
    sum.projections += layer.projections;
    sum.router += layer.router;
    sum.experts += layer.experts;
    sum.dense += layer.dense;
  }
  return sum;
}

int64_t head_flops(const ModelShape& shape) {
  const Letters l(shape);
  return 2 * l.h * l.v;
}

int64_t visible_pairs_in_window(AttentionSpan span, int64_t window) {
  // Queries at positions below window - 1 see everything before them; the others see `window` tokens.
  const int64_t growing = std::clamp<int64_t>(window - 1 - span.prefix, 0, span.suffix);
  return visible_pairs({.prefix = span.prefix, .suffix = growing}) + (span.suffix - growing) * window;
}

int64_t attention_flops(const ModelShape& shape, AttentionSpan span) {
  return Letters(shape).pair_flops() * visible_pairs(span);
}

int64_t attention_flops_all_layers(const ModelShape& shape, AttentionSpan span) {
  const int64_t sliding = shape.planning.sliding_layers;
  const int64_t pairs = (shape.layers - sliding) * visible_pairs(span) +
                        sliding * visible_pairs_in_window(span, shape.planning.sliding_window);
  return Letters(shape).pair_flops() * pairs;
}

ParameterCounts parameter_counts(const ModelShape& shape) {
  const Letters l(shape);
  const int64_t layers = shape.layers;
  const int64_t moe = shape.moe_layers();
  const int64_t head_norms = shape.qk_norm ? 2 * l.d : 0;
  return {
      .embedding = l.v * l.h,
      .head = shape.tied_embeddings ? 0 : l.v * l.h,
      .attention = layers * l.projection_parameters(),
      .router = moe * l.h * l.e,
      .experts = moe * l.e * l.expert_parameters(),
      .dense = (layers - moe) * l.dense_parameters() + moe * l.shared_parameters(),
      .norms = layers * (2 * l.h + head_norms + l.q_rank + l.kv_rank) + l.h,
  };
}

int64_t active_parameters(const ModelShape& shape) {
  const int64_t unused = int64_t{shape.moe_layers()} * (shape.experts - shape.experts_per_token);
  return parameter_counts(shape).total() - unused * Letters(shape).expert_parameters();
}

int64_t expert_bytes(const ModelShape& shape, int64_t bytes_per_element) {
  return Letters(shape).expert_parameters() * bytes_per_element;
}

int64_t layer_expert_bytes(const ModelShape& shape, int64_t bytes_per_element) {
  return shape.experts * expert_bytes(shape, bytes_per_element);
}

int64_t layer_resident_bytes(const ModelShape& shape, FeedForward kind, int64_t bytes_per_element) {
  const Letters l(shape);
  const int64_t feed_forward = kind == FeedForward::kMoe ? l.h * l.e + l.shared_parameters() : l.dense_parameters();
  return (l.projection_parameters() + feed_forward) * bytes_per_element;
}

int64_t layer_kv_bytes_per_token(const ModelShape& shape, int64_t bytes_per_element) {
  return Letters(shape).kv_elements() * bytes_per_element;
}

int64_t kv_bytes_per_token(const ModelShape& shape, int64_t bytes_per_element) {
  return shape.layers * layer_kv_bytes_per_token(shape, bytes_per_element);
}

}  // namespace zp
