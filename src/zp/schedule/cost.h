// The cost of a request on a rank: FLOPs of the tokens that are not cached there. The only such function; planner,
// scheduler, benchmarks and simulator use it.
#pragma once

#include <cstdint>
#include <functional>

#include "zp/shape/flops.h"
#include "zp/shape/model_shape.h"

namespace zp {

/// Work in one layer, as the mean over all layers, so that it compares with a layer's transfer. The three parts run at
/// different rates. The output head is no layer's work and is left out.
struct RequestCost {
  int64_t tokens = 0;    ///< computed, that is not reused
  double attention = 0;  ///< FLOPs: scores and weighted sums, over prefix and suffix
  double dense = 0;      ///< FLOPs: projections, router, dense feed-forward, shared experts
  double expert = 0;     ///< FLOPs: experts

  [[nodiscard]] double total() const noexcept { return attention + dense + expert; }
  RequestCost& operator+=(const RequestCost& other) noexcept {
    tokens += other.tokens;
    attention += other.attention;
    dense += other.dense;
    expert += other.expert;
    return *this;
  }
};

/// A model's cost function. Immutable; thread-safe.
class CostModel final {
 public:
  explicit CostModel(const ModelShape& shape);

  /// Computing span.suffix tokens after span.prefix reused ones.
  [[nodiscard]] RequestCost cost(AttentionSpan span) const noexcept;

 private:
  double dense_per_token_ = 0;
  double expert_per_token_ = 0;
  double attention_per_pair_ = 0;         ///< of a layer that sees everything, times the share of such layers
  double attention_per_window_pair_ = 0;  ///< of a sliding layer, likewise
  int64_t window_ = 0;
};

/// How a step is measured against its target. The load of a step is the sum of its requests' loads, so `load` must be
/// additive: predicted layer time from measured rates, against the saturation threshold, or tokens where nothing was
/// measured.
struct LoadRule {
  std::function<double(const RequestCost&)> load;
  double target = 0;           ///< a step is filled until its load reaches this
  double floor = 0;            ///< a step of less takes as long: its transfer does, or reading its experts; <= target
  double target_deadline = 0;  ///< the target of a step that holds a request whose deadline presses; <= target
};

/// Load in computed tokens. A step with a pressing deadline takes nothing else along.
[[nodiscard]] LoadRule token_load(int64_t target_tokens);

}  // namespace zp
