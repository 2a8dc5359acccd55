// Checks that a shape's numbers fit together.
#include "zp/shape/model_shape.h"

#include <fmt/format.h>

namespace zp {
namespace {

// Far above any model there is, and low enough that counts of parameters, bytes and FLOPs fit 64 bits.
constexpr int32_t kLayersMax = 4096;
constexpr int32_t kExpertsMax = 65536;
constexpr int32_t kWidthMax = 1 << 24;
constexpr double kParametersMax = 0x1p50;

void add_size_problems(const ModelShape& shape, std::vector<std::string>& problems) {
  const auto at_most = [&](const char* name, int32_t value, int32_t limit) {
    if (value > limit) problems.push_back(fmt::format("{} is {}; the limit is {}", name, value, limit));
  };
  at_most("layers", shape.layers, kLayersMax);
  at_most("experts", shape.experts, kExpertsMax);
  at_most("hidden", shape.hidden, kWidthMax);
  at_most("query_heads", shape.query_heads, kWidthMax);
  at_most("head_dim", shape.head_dim, kWidthMax);
  at_most("vocabulary", shape.vocabulary, kWidthMax);
  at_most("expert_intermediate", shape.expert_intermediate, kWidthMax);
  at_most("dense_intermediate", shape.dense_intermediate, kWidthMax);
  at_most("planning.shared_intermediate", shape.planning.shared_intermediate, kWidthMax);
  const double hidden = shape.hidden;
  const double layer = 2.0 * hidden * shape.head_dim * (static_cast<double>(shape.query_heads) + shape.kv_heads) +
                       3.0 * hidden * shape.experts * shape.expert_intermediate +
                       3.0 * hidden * shape.dense_intermediate;
  const double parameters = 2.0 * hidden * shape.vocabulary + layer * shape.layers;
  if (parameters > kParametersMax)
    problems.push_back(fmt::format("it would have {:.3g} parameters; the limit is {:.3g}", parameters, kParametersMax));
}

}  // namespace

std::vector<std::string> validate(const ModelShape& shape) {
  std::vector<std::string> problems;
  const auto positive = [&](const char* name, int32_t value) {
    if (value <= 0) problems.push_back(fmt::format("{} is {}; it must be at least 1", name, value));
  };
  positive("layers", shape.layers);
  positive("hidden", shape.hidden);
  positive("query_heads", shape.query_heads);
  positive("kv_heads", shape.kv_heads);
  positive("head_dim", shape.head_dim);
  positive("vocabulary", shape.vocabulary);
  positive("max_positions", shape.max_positions);
  if (shape.kv_heads > 0 && shape.query_heads % shape.kv_heads != 0)
    problems.push_back(fmt::format("kv_heads {} does not divide query_heads {}", shape.kv_heads, shape.query_heads));
  if (shape.head_dim % 2 != 0) problems.push_back(fmt::format("head_dim {} is odd", shape.head_dim));
  if (static_cast<int64_t>(shape.feed_forward.size()) != shape.layers)
    problems.push_back(fmt::format("{} layers, but {} feed-forward kinds", shape.layers, shape.feed_forward.size()));
  if (shape.moe_layers() > 0) {
    positive("experts", shape.experts);
    positive("experts_per_token", shape.experts_per_token);
    positive("expert_intermediate", shape.expert_intermediate);
    if (shape.experts_per_token > shape.experts)
      problems.push_back(
          fmt::format("experts_per_token {} is more than experts {}", shape.experts_per_token, shape.experts));
  }
  if (shape.moe_layers() < shape.layers) positive("dense_intermediate", shape.dense_intermediate);
  if (!(shape.rope_theta > 0))
    problems.push_back(fmt::format("rope_theta is {}; it must be positive", shape.rope_theta));
  if (!(shape.norm_eps >= 0))
    problems.push_back(fmt::format("norm_eps is {}; it must not be negative", shape.norm_eps));
  const PlanningFeatures& planning = shape.planning;
  if (planning.sliding_layers < 0 || planning.sliding_layers > shape.layers)
    problems.push_back(
        fmt::format("planning.sliding_layers is {} of {} layers", planning.sliding_layers, shape.layers));
  if (planning.sliding_layers > 0) positive("planning.sliding_window", planning.sliding_window);
  if (planning.latent()) positive("planning.latent_value_dim", planning.latent_value_dim);
  add_size_problems(shape, problems);
  return problems;
}

}  // namespace zp
