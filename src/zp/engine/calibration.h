// Measures, before a rank runs steps, what the choice of their modes depends on.
#pragma once

#include <cstdint>

#include "zp/base/clock.h"
#include "zp/expert/mode_cost.h"
#include "zp/expert/step_experts.h"
#include "zp/model/forward.h"
#include "zp/shape/model_shape.h"

namespace zp {

/// As far as its time depends on it.
[[nodiscard]] StepLoad load_of(const ForwardStep& step);

/// Sequences of at most `sequence_tokens` made-up tokens from all over the vocabulary, one of which wants a logit.
[[nodiscard]] ForwardStep made_up_step(const ModelShape& shape, int64_t tokens, int64_t sequence_tokens);

/// Two steps that were timed: what they computed, and how long that took.
struct TimedSteps {
  double small_flops = 0;
  double small_seconds = 0;
  double large_flops = 0;
  double large_seconds = 0;
};
/// Fits seconds = step_seconds + flops / flops_per_second, neither negative; the rest of the calibration is empty.
[[nodiscard]] Calibration fit_compute(const TimedSteps& steps);

/// What is measured with.
struct CalibrationParts {
  const ModelShape& shape;
  const ForwardLimits& limits;
  Forward& forward;
  StepExperts& experts;
  Stream& stream;
  const Clock& clock;
};
/// Times copies over the link that experts come over, a synchronization, and (unless the link is so slow that it alone
/// matters) small steps of made-up tokens; from then on `experts` chooses by it. Leaves the slots full. Blocks; throws
/// what a device throws.
void calibrate(const CalibrationParts& parts);

}  // namespace zp
