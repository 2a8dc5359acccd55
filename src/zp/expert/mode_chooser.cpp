// Averages and the choice.
#include "zp/expert/mode_chooser.h"

#include <algorithm>
#include <bit>

namespace zp {
namespace {

constexpr double kWeight = 0.3;   // of the latest step in an average
constexpr double kStepMax = 1.6;  // a step that differs by more counts as one that differs by this
constexpr double kFactorMin = 0.25;
constexpr double kFactorMax = 8;
constexpr double kFading = 0.002;  // of what was learnt of a mode, with each step of another
constexpr double kWorthwhile = 0.98;

void average(double& factor, double seen) {
  if (!(seen > 0)) return;
  factor += kWeight * (std::clamp(seen, factor / kStepMax, factor * kStepMax) - factor);
  factor = std::clamp(factor, kFactorMin, kFactorMax);
}

}  // namespace

size_t ModeChooser::bucket_of(int64_t tokens) {
  return std::min<size_t>(kBuckets - 1,
                          static_cast<size_t>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(tokens, 0)))));
}

double ModeChooser::uncorrected_seconds(StepMode mode, const StepLoad& load) const {
  return cost_.seconds(mode, load, {.compute = compute_[bucket_of(load.tokens)], .routed = routed_});
}

double ModeChooser::predicted_seconds(StepMode mode, const StepLoad& load) const {
  return modes_[static_cast<size_t>(mode)][bucket_of(load.tokens)] * uncorrected_seconds(mode, load);
}

StepMode ModeChooser::choose(const StepLoad& load, const Available& available) const {
  StepMode best = StepMode::kGatherAll;
  double best_seconds = predicted_seconds(best, load);
  for (const StepMode mode : {StepMode::kFetchRouted, StepMode::kSendActivations}) {
    if (!available[static_cast<size_t>(mode)]) continue;
    const double seconds = predicted_seconds(mode, load);
    if (seconds >= best_seconds) continue;
    best = mode;
    best_seconds = seconds;
  }
  if (last_ && *last_ != best && available[static_cast<size_t>(*last_)] &&
      best_seconds > kWorthwhile * predicted_seconds(*last_, load))
    return *last_;
  return best;
}

void ModeChooser::observe_routing(const Observation& seen) {
  if (seen.routed_layers == 0) return;
  const double expected = cost_.expected_experts(cost_.remote_experts(), seen.load.tokens);
  if (expected <= 0) return;
  average(routed_, static_cast<double>(seen.routed_experts) / static_cast<double>(seen.routed_layers) / expected);
}

void ModeChooser::observe(const Observation& seen) {
  observe_routing(seen);
  const bool settled = last_ == seen.mode;  // else what the mode before left in the ring helped or hindered
  last_ = seen.mode;
  if (!settled) return;
  const size_t bucket = bucket_of(seen.load.tokens);
  // When activations are sent, computing for others is in between.
  if (seen.mode != StepMode::kSendActivations)
    average(compute_[bucket], (seen.seconds - seen.exposed_seconds) / cost_.compute_seconds(seen.load));
  for (size_t mode = 0; mode < kStepModes; ++mode) {
    double& factor = modes_[mode][bucket];
    if (mode == static_cast<size_t>(seen.mode)) {
      average(factor, seen.seconds / uncorrected_seconds(seen.mode, seen.load));
    } else {
      factor += kFading * (1 - factor);
    }
  }
}

}  // namespace zp
