// FLOPs of a request from the shape's coefficients.
#include "zp/schedule/cost.h"

#include "zp/base/check.h"

namespace zp {

CostModel::CostModel(const ModelShape& shape) {
  ZP_CHECK(shape.layers > 0, "a model has {} layers", shape.layers);
  const LinearFlops flops = linear_flops_all_layers(shape);
  const auto layers = static_cast<double>(shape.layers);
  dense_per_token_ = static_cast<double>(flops.projections + flops.router + flops.dense) / layers;
  expert_per_token_ = static_cast<double>(flops.experts) / layers;
  // One token after none sees one pair, itself.
  const auto pair = static_cast<double>(attention_flops(shape, {.prefix = 0, .suffix = 1}));
  const auto sliding = static_cast<double>(shape.planning.sliding_layers) / layers;
  attention_per_pair_ = pair * (1 - sliding);
  attention_per_window_pair_ = pair * sliding;
  window_ = shape.planning.sliding_window;
}

RequestCost CostModel::cost(AttentionSpan span) const noexcept {
  const auto tokens = static_cast<double>(span.suffix);
  double attention = attention_per_pair_ * static_cast<double>(visible_pairs(span));
  if (window_ > 0)
    attention += attention_per_window_pair_ * static_cast<double>(visible_pairs_in_window(span, window_));
  return {.tokens = span.suffix,
          .attention = attention,
          .dense = dense_per_token_ * tokens,
          .expert = expert_per_token_ * tokens};
}

LoadRule token_load(int64_t target_tokens) {
  return {.load = [](const RequestCost& cost) { return static_cast<double>(cost.tokens); },
          .target = static_cast<double>(target_tokens),
          .floor = static_cast<double>(target_tokens),
          .target_deadline = 0};
}

}  // namespace zp
