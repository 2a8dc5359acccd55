// Arithmetic on a model's shape.
#include "zp/shape/flops.h"

namespace zp {
namespace {

// The shape's numbers in 64 bits, under the letters of model_shape.h.
struct Letters {
  int64_t h, q, g, d, v, e, k, i_expert, i_dense;

  explicit Letters(const ModelShape& shape)
      : h(shape.hidden),
        q(shape.query_heads),
        g(shape.kv_heads),
        d(shape.head_dim),
        v(shape.vocabulary),
        e(shape.experts),
        k(shape.experts_per_token),
        i_expert(shape.expert_intermediate),
        i_dense(shape.dense_intermediate) {}

  [[nodiscard]] int64_t projection_parameters() const { return h * (q + 2 * g) * d + q * d * h; }
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

int64_t attention_flops(const ModelShape& shape, AttentionSpan span) {
  const Letters l(shape);
  return 4 * l.q * l.d * visible_pairs(span);
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
      .dense = (layers - moe) * l.dense_parameters(),
      .norms = layers * (2 * l.h + head_norms) + l.h,
  };
}

int64_t expert_bytes(const ModelShape& shape, int64_t bytes_per_element) {
  return Letters(shape).expert_parameters() * bytes_per_element;
}

int64_t layer_expert_bytes(const ModelShape& shape, int64_t bytes_per_element) {
  return shape.experts * expert_bytes(shape, bytes_per_element);
}

int64_t layer_resident_bytes(const ModelShape& shape, FeedForward kind, int64_t bytes_per_element) {
  const Letters l(shape);
  const int64_t feed_forward = kind == FeedForward::kMoe ? l.h * l.e : l.dense_parameters();
  return (l.projection_parameters() + feed_forward) * bytes_per_element;
}

int64_t layer_kv_bytes_per_token(const ModelShape& shape, int64_t bytes_per_element) {
  const Letters l(shape);
  return 2 * l.g * l.d * bytes_per_element;
}

int64_t kv_bytes_per_token(const ModelShape& shape, int64_t bytes_per_element) {
  return shape.layers * layer_kv_bytes_per_token(shape, bytes_per_element);
}

}  // namespace zp
