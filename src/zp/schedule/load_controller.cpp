// Follows rates, lengths and exposed time.
#include "zp/schedule/load_controller.h"

#include <algorithm>
#include <cmath>

#include "zp/base/check.h"

namespace zp {
namespace {

constexpr double kLargeShare = 0.25;   // of the target, or of an efficient step
constexpr double kOverheadsMin = 4;    // predicted compute of a large step, over step_seconds
constexpr double kFullFill = 0.9;      // below, exposed time says nothing of the target
constexpr double kExposedMuch = 0.02;  // of a step's time
constexpr double kExposedLittle = 0.005;
constexpr double kGammaStepMax = 1.25;
constexpr double kGammaFading = 0.998;
constexpr double kContextWeight = 0.4;  // of the latest step
constexpr double kMoved = 0.04;
constexpr double kFar = 1.5;
constexpr double kApart = 8;  // no two kinds of work are measured so unlike

bool differ(double a, double b) { return std::abs(a - b) > kMoved * std::max(std::abs(a), std::abs(b)); }

}  // namespace

LoadController::LoadController(const ModelShape& shape, const LoadControllerSpec& spec)
    : spec_(spec),
      cost_(shape),
      layers_(shape.layers),
      head_seconds_(static_cast<double>(head_flops(shape)) / spec.measured.rates.dense),
      attention_flops_per_pair_(cost_.cost({.prefix = 0, .suffix = 1}).attention) {
  const RequestCost token = cost_.cost({.prefix = 0, .suffix = 1});
  efficient_flops_ = static_cast<double>(spec.efficient_step_tokens) * (token.dense + token.expert);
  ZP_CHECK(spec.gamma >= 1 && spec.gamma <= kGammaMax && spec.context_tokens > 0, "gamma {}, contexts of {} tokens",
           spec.gamma, spec.context_tokens);
  now_ = {.factors = {}, .gamma = spec.gamma, .context_tokens = static_cast<double>(spec.context_tokens)};
  use();
}

OperationRates LoadController::rates(const RateFit::Factors& factors) const {
  const OperationRates& measured = spec_.measured.rates;
  return {.attention = measured.attention / factors.attention,
          .dense = measured.dense / factors.other,
          .expert = measured.expert / factors.other};
}

MeasuredRank LoadController::measured() const {
  MeasuredRank measured = spec_.measured;
  measured.rates = rates(used_.factors);
  return measured;
}

MeasuredRank LoadController::settled() const {
  MeasuredRank settled = spec_.measured;
  if (efficient_steps_ < kSettledSteps) return settled;
  RateFit::Factors factors = efficient_fit_.factors();
  const auto [less, more] = std::minmax(factors.attention, factors.other);
  if (more > kApart * less) {
    // Something else than the work decided what steps took, such as other programs on the same cores: they tell how
    // much slower all of it was, and nothing of its kinds.
    factors = {.attention = efficient_fit_.common_factor(), .other = efficient_fit_.common_factor()};
  }
  settled.rates = rates(factors);
  return settled;
}

LoadRule LoadController::rule() const {
  if (spec_.fixed_tokens) return token_load(*spec_.fixed_tokens);
  return layer_time_load(rates(used_.factors), spec_.fixed_seconds.value_or(saturation_.target.seconds),
                         spec_.transfer_seconds);
}

bool LoadController::observe(const StepObservation& step) {
  if (!spec_.adapt || !is_large(step)) return false;
  follow_rates(step);
  // Time was exposed, or was not, under rates that were wrong: it says nothing any more.
  const auto far = [](double a, double b) { return std::max(a, b) > kFar * std::min(a, b); };
  if (far(now_.factors.attention, used_.factors.attention) || far(now_.factors.other, used_.factors.other))
    now_.gamma = spec_.gamma;
  else
    follow_gamma(step);
  follow_context(step);
  if (!has_moved()) return false;
  ++recalibrations_;
  use();
  return true;
}

bool LoadController::is_efficient(const StepObservation& step) const {
  return step.cost.total() >= kLargeShare * efficient_flops_;
}

// What small steps take is mostly not work, and when a step is full does not matter to them. A wrong start may set the
// target so high that no step comes near it, so other measures count too.
bool LoadController::is_large(const StepObservation& step) const {
  if (step.fill >= kLargeShare || is_efficient(step)) return true;
  const bool limited = step.filled_by == StopReason::kCapacity || step.filled_by == StopReason::kLookAhead;
  return limited &&
         layers_ * layer_seconds(step.cost, rates(used_.factors)) >= kOverheadsMin * spec_.measured.step_seconds;
}

void LoadController::follow_rates(const StepObservation& step) {
  if (step.sent_activations) return;
  const OperationRates& measured = spec_.measured.rates;
  const double others = layers_ * (step.cost.dense / measured.dense + step.cost.expert / measured.expert) +
                        static_cast<double>(step.requests) * head_seconds_;
  const TimedWork work{.attention_seconds = layers_ * step.cost.attention / measured.attention,
                       .other_seconds = others,
                       .seconds = step.seconds - step.exposed_seconds - spec_.measured.step_seconds};
  fit_.observe(work);
  now_.factors = fit_.factors();
  if (!is_efficient(step)) return;
  efficient_fit_.observe(work);
  efficient_steps_ = std::min(efficient_steps_ + 1, kSettledSteps);
}

// A full step that takes 1 / (1 - exposed) of what it computes would have been hidden by as much more work.
void LoadController::follow_gamma(const StepObservation& step) {
  if (step.fill < kFullFill || !(step.seconds > 0)) return;
  const double exposed = std::clamp((step.exposed_seconds - step.peer_wait_seconds) / step.seconds, 0.0, 1.0);
  if (exposed > kExposedMuch)
    now_.gamma = std::min(kGammaMax, now_.gamma * std::min(kGammaStepMax, 1 / (1 - std::min(exposed, 0.5))));
  else if (exposed < kExposedLittle)
    now_.gamma = std::max(1.0, now_.gamma * kGammaFading);
}

// S tokens after none see S (S + 1) / 2 pairs. Without the lengths themselves this counts what reuse leaves of them.
void LoadController::follow_context(const StepObservation& step) {
  if (step.cost.tokens <= 0 || attention_flops_per_pair_ <= 0) return;
  const double pairs = step.cost.attention / attention_flops_per_pair_ / static_cast<double>(step.cost.tokens);
  now_.context_tokens += kContextWeight * (std::max(1.0, 2 * pairs - 1) - now_.context_tokens);
}

bool LoadController::has_moved() const {
  return differ(now_.factors.attention, used_.factors.attention) || differ(now_.factors.other, used_.factors.other) ||
         differ(now_.gamma, used_.gamma) || differ(now_.context_tokens, used_.context_tokens);
}

void LoadController::use() {
  used_ = now_;
  saturation_ = zp::saturation(cost_, {.transfer_seconds = spec_.transfer_seconds,
                                       .gamma = used_.gamma,
                                       .rates = rates(used_.factors),
                                       .peak_rate = 0,
                                       .rate = ThresholdRate::kAchieved,
                                       .context_tokens = std::max<int64_t>(1, std::llround(used_.context_tokens)),
                                       .efficient_step_tokens = spec_.efficient_step_tokens});
  if (spec_.fixed_seconds || spec_.fixed_tokens) {
    // Shown in all units, by what tokens cost now.
    LayerWork& target = saturation_.target;
    const LayerWork efficient = target;
    const double scale = spec_.fixed_seconds ? *spec_.fixed_seconds / efficient.seconds
                                             : static_cast<double>(*spec_.fixed_tokens) / efficient.tokens;
    target = {
        .flops = efficient.flops * scale, .seconds = efficient.seconds * scale, .tokens = efficient.tokens * scale};
  }
}

}  // namespace zp
