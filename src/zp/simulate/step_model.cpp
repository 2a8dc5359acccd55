// Layers all alike, and the ring.
#include "zp/simulate/step_model.h"

#include <algorithm>
#include <cmath>

#include "zp/base/error.h"

namespace zp {

RankTimeline::RankTimeline(const StepModel& model)
    : model_(model),
      ring_(model.slots, std::vector<double>(static_cast<size_t>(model.streamed_layers), model.transfer_seconds),
            -model.slots * model.transfer_seconds),
      layers_(static_cast<size_t>(model.layers)) {
  for (int32_t l = model.layers - model.streamed_layers; l < model.layers; ++l)
    layers_[static_cast<size_t>(l)].streamed = true;
}

StepTime RankTimeline::run(int64_t start_ns, const RequestCost& cost, int64_t requests) {
  const RequestCost others{.tokens = cost.tokens, .attention = cost.attention, .dense = cost.dense, .expert = 0};
  const double outside = layer_seconds(others, model_.rates);
  const double experts = std::max(cost.expert / model_.rates.expert, model_.expert_read_seconds);
  for (TimedLayer& layer : layers_) {
    layer.outside = outside;
    layer.experts = experts;
  }
  const double ends = model_.step_seconds + static_cast<double>(requests) * model_.request_seconds;
  const double begin = static_cast<double>(start_ns) * 1e-9;
  const RingTimeline::Step step = ring_.run(begin, 0, layers_, ends);
  const double compute = (outside + experts) * model_.layers + ends;
  // So that nanoseconds are whole numbers of 64 bits: 285 years.
  constexpr double kEndSecondsMax = 9e9;
  if (const double end = begin + compute + step.exposed; !(end <= kEndSecondsMax))
    fail(ErrorCode::kInvalidArgument,
         "a step would end after {:.3g} s of simulated time; the limit is {:.3g} s: rates "
         "or links are too slow",
         end, kEndSecondsMax);
  return {.compute_ns = std::max<int64_t>(1, std::llround(compute * 1e9)),
          .exposed_ns = std::llround(step.exposed * 1e9)};
}

}  // namespace zp
