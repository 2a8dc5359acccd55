// The update of a Kalman filter of two constants.
#include "zp/schedule/rate_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace zp {
namespace {

constexpr double kForgetting = 0.97;  // a step counts half after 23 more
// A step that takes so many times what was expected, or a part of it, is a surprise. One may be a hiccup; when another
// came shortly before, rates have changed, and what was known counts this much less at once.
constexpr double kSurprise = 1.25;
constexpr double kForgettingOnSurprise = 0.1;
constexpr double kFactorMin = 1.0 / 256;
constexpr double kFactorMax = 256;
constexpr double kFallMax = 32;  // by which one step may lower a factor

double changed(double factor, double change) {
  return std::clamp(factor + change, std::max(kFactorMin, factor / kFallMax), kFactorMax);
}

}  // namespace

void RateFit::observe(const TimedWork& work) {
  const double expected = factors_.attention * work.attention_seconds + factors_.other * work.other_seconds;
  if (!(work.seconds > 0 && expected > 0 && std::isfinite(work.seconds) && std::isfinite(expected))) return;
  seconds_ += work.seconds;
  predicted_seconds_ += work.attention_seconds + work.other_seconds;
  const double ratio = work.seconds / expected;
  if (std::max(ratio, 1 / ratio) <= kSurprise) {
    since_surprise_ = std::min(since_surprise_ + 1, kSurpriseSteps);
  } else if (std::exchange(since_surprise_, 0) < kSurpriseSteps) {
    forget(kForgettingOnSurprise);
  }
  // Divided by what is expected now, so that errors are relative.
  const double a = work.attention_seconds / expected;
  const double o = work.other_seconds / expected;
  const double pa = attention_variance_ * a + covariance_ * o;
  const double po = covariance_ * a + other_variance_ * o;
  const double variance = 1 + a * pa + o * po;
  const double error = ratio - 1;
  factors_.attention = changed(factors_.attention, pa / variance * error);
  factors_.other = changed(factors_.other, po / variance * error);
  attention_variance_ -= pa * pa / variance;
  other_variance_ -= po * po / variance;
  covariance_ -= pa * po / variance;
  forget(kForgetting);
}

// What was observed so far counts `share` of what it did.
void RateFit::forget(double share) {
  if (memory_ == Memory::kAll) return;
  attention_variance_ /= share;
  other_variance_ /= share;
  covariance_ /= share;
  // What is not observed must not become anybody's guess: a factor's error stays in proportion to it.
  const auto scale = [](double variance_now, double factor) {
    return std::min(1.0, factor * std::sqrt(kVarianceMax / variance_now));
  };
  const double attention_scale = scale(attention_variance_, factors_.attention);
  const double other_scale = scale(other_variance_, factors_.other);
  attention_variance_ *= attention_scale * attention_scale;
  other_variance_ *= other_scale * other_scale;
  covariance_ *= attention_scale * other_scale;
}

}  // namespace zp
