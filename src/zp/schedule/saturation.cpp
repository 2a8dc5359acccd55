// Arithmetic on costs and rates.
#include "zp/schedule/saturation.h"

#include <algorithm>

#include "zp/base/check.h"

namespace zp {

double layer_seconds(const RequestCost& cost, const OperationRates& rates) {
  return cost.attention / rates.attention + cost.dense / rates.dense + cost.expert / rates.expert;
}

Saturation saturation(const CostModel& cost, const SaturationSpec& spec) {
  ZP_CHECK(spec.transfer_seconds >= 0 && spec.gamma >= 1 && spec.context_tokens > 0,
           "t_EP {} s, gamma {}, a context of {} tokens", spec.transfer_seconds, spec.gamma, spec.context_tokens);
  const RequestCost request = cost.cost({.prefix = 0, .suffix = spec.context_tokens});
  const double request_seconds = layer_seconds(request, spec.rates);
  const double achieved = request.total() / request_seconds;
  const auto work_of = [&](double flops) {
    return LayerWork{.flops = flops,
                     .seconds = flops / achieved,
                     .tokens = flops / request.total() * static_cast<double>(spec.context_tokens)};
  };
  Saturation out;
  out.rate = spec.rate == ThresholdRate::kPeak ? spec.peak_rate : achieved;
  ZP_CHECK(out.rate > 0, "a rate of {} FLOP/s", out.rate);
  out.threshold = work_of(spec.transfer_seconds * out.rate * spec.gamma);
  const double efficient =
      request.total() * static_cast<double>(spec.efficient_step_tokens) / static_cast<double>(spec.context_tokens);
  out.target = work_of(std::max(out.threshold.flops, efficient));
  return out;
}

LoadRule layer_time_load(const OperationRates& rates, double target_seconds, double transfer_seconds) {
  return {.load = [rates](const RequestCost& cost) { return layer_seconds(cost, rates); },
          .target = target_seconds,
          .floor = std::min(target_seconds, transfer_seconds),
          .target_deadline = 0};
}

}  // namespace zp
