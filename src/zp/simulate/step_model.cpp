// Compares compute with transfer, layer by layer (all alike).
#include "zp/simulate/step_model.h"

#include <algorithm>
#include <cmath>

namespace zp {

StepTime step_time(const StepModel& model, const RequestCost& cost) {
  const RequestCost others{.tokens = cost.tokens, .attention = cost.attention, .dense = cost.dense, .expert = 0};
  const double layer =
      layer_seconds(others, model.rates) + std::max(cost.expert / model.rates.expert, model.expert_read_seconds);
  const double late = std::max(0.0, model.transfer_seconds - layer);
  return {.compute_ns = std::max<int64_t>(1, std::llround(layer * model.layers * 1e9)),
          .exposed_ns = std::llround(late * model.streamed_layers * 1e9)};
}

}  // namespace zp
