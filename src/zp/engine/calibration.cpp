// A few small steps at start-up.
#include "zp/engine/calibration.h"

#include <algorithm>
#include <array>
#include <limits>

#include "zp/base/math.h"
#include "zp/shape/flops.h"

namespace zp {
namespace {

constexpr int32_t kRepeats = 2;
constexpr int64_t kLargeTokens = 128;
constexpr int64_t kSequenceTokens = 64;
// Made-up steps cost a gather each. Where one takes longer than this, what computing takes does not matter much, and is
// learnt from real steps.
constexpr double kGatherSecondsMax = 0.1;
constexpr double kFastestFlops = 1e13;  // FLOP/s

double flops_of(const ModelShape& shape, const StepLoad& load) {
  const auto linear = static_cast<double>(linear_flops_all_layers(shape).total());
  const auto pair = static_cast<double>(attention_flops(shape, {.prefix = 0, .suffix = 1}));
  return static_cast<double>(load.tokens) * linear + static_cast<double>(load.attention_pairs) * shape.layers * pair +
         static_cast<double>(load.head_rows) * static_cast<double>(head_flops(shape));
}

// The quickest of a few: whatever else the machine does makes them slower.
double quickest_seconds(const CalibrationParts& parts, const ForwardStep& step) {
  double quickest = std::numeric_limits<double>::infinity();
  const StepLoad load = load_of(step);
  for (int32_t i = 0; i < kRepeats; ++i) {
    (void)parts.experts.begin_step(load, StepMode::kFetchRouted);
    const int64_t begin_ns = parts.clock.now_ns();
    (void)parts.forward.run(parts.stream, step);
    double seconds = static_cast<double>(parts.clock.now_ns() - begin_ns) * 1e-9;
    const StepExperts::StepOutcome outcome = parts.experts.end_step(seconds, false);
    for (const LayerWait& wait : outcome.waits) seconds -= static_cast<double>(wait.exposed_ns) * 1e-9;
    quickest = std::min(quickest, std::max(seconds, 0.0));
  }
  return quickest;
}

double sync_seconds(const CalibrationParts& parts) {
  std::array<int64_t, 9> times_ns{};
  for (int64_t& time_ns : times_ns) {
    const int64_t begin_ns = parts.clock.now_ns();
    parts.stream.synchronize();
    time_ns = parts.clock.now_ns() - begin_ns;
  }
  std::ranges::sort(times_ns);
  return static_cast<double>(times_ns[times_ns.size() / 2]) * 1e-9;
}

}  // namespace

ForwardStep made_up_step(const ModelShape& shape, int64_t tokens, int64_t sequence_tokens) {
  ForwardStep step;
  const int64_t length_max = std::min<int64_t>(sequence_tokens, shape.max_positions);
  for (int64_t row = 0; row < tokens; row += length_max) {
    const auto length = static_cast<int32_t>(std::min(length_max, tokens - row));
    step.sequences.push_back({.row = row, .tokens = length, .prefix = {}});
    for (int32_t p = 0; p < length; ++p) {
      // A multiplicative hash: neighbours are far apart.
      const auto id = static_cast<uint64_t>(row + p) * 0x9E3779B97F4A7C15U >> 33U;
      step.ids.push_back(static_cast<int32_t>(id % static_cast<uint64_t>(shape.vocabulary)));
      step.positions.push_back(p);
    }
  }
  step.head_rows = {tokens - 1};
  step.candidate_offsets = {0, 1};
  step.candidates = {0};
  return step;
}

StepLoad load_of(const ForwardStep& step) {
  StepLoad load{.tokens = std::ssize(step.ids), .attention_pairs = 0, .head_rows = std::ssize(step.head_rows)};
  for (const StepSequence& sequence : step.sequences) {
    int64_t prefix = 0;
    for (const KvRun& run : sequence.prefix) prefix += run.tokens;
    load.attention_pairs += visible_pairs({.prefix = prefix, .suffix = sequence.tokens});
  }
  return load;
}

Calibration fit_compute(const TimedSteps& steps) {
  Calibration fit;
  const double more_flops = steps.large_flops - steps.small_flops;
  const double more_seconds = steps.large_seconds - steps.small_seconds;
  if (more_flops > 0 && more_seconds > 0) {
    fit.flops_per_second = more_flops / more_seconds;
    fit.step_seconds = steps.small_seconds - steps.small_flops / fit.flops_per_second;
  }
  if (fit.flops_per_second > 0 && fit.step_seconds >= 0) return fit;
  // The times do not tell the two apart: all is in proportion to the work.
  fit.step_seconds = 0;
  fit.flops_per_second =
      steps.large_seconds > 0 ? steps.large_flops / steps.large_seconds : std::numeric_limits<double>::infinity();
  return fit;
}

void calibrate(const CalibrationParts& parts) {
  const LinkTiming link = parts.experts.time_link();
  const Calibration link_alone{.link_bytes_per_second = link.bytes_per_second,
                               .copy_seconds = link.copy_seconds,
                               .sync_seconds = sync_seconds(parts),
                               .step_seconds = 0,
                               .flops_per_second = kFastestFlops};
  if (parts.experts.gather_seconds(link_alone) > kGatherSecondsMax) return parts.experts.use(link_alone);
  const int64_t large = std::min({kLargeTokens, parts.limits.tokens, parts.limits.chunk_tokens});
  const ForwardStep large_step = made_up_step(parts.shape, large, kSequenceTokens);
  const ForwardStep small_step = made_up_step(parts.shape, ceil_div<int64_t>(large, 8), kSequenceTokens);
  TimedSteps timed{.small_flops = flops_of(parts.shape, load_of(small_step)),
                   .small_seconds = quickest_seconds(parts, small_step),
                   .large_flops = flops_of(parts.shape, load_of(large_step)),
                   .large_seconds = quickest_seconds(parts, large_step)};
  Calibration calibration = fit_compute(timed);
  calibration.link_bytes_per_second = link.bytes_per_second;
  calibration.copy_seconds = link.copy_seconds;
  calibration.sync_seconds = link_alone.sync_seconds;
  parts.experts.use(calibration);
  // One step more, for what it says of routing; then the ring is filled as if it had not been used.
  const StepLoad load = load_of(large_step);
  (void)parts.experts.begin_step(load, StepMode::kFetchRouted);
  (void)parts.forward.run(parts.stream, large_step);
  parts.experts.observe_routing(load, parts.experts.end_step(0, true).routed);
  (void)parts.experts.begin_step({}, StepMode::kGatherAll);
  (void)parts.experts.end_step(0, true);
}

}  // namespace zp
