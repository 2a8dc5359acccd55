// The update of a Kalman filter of two constants.
#include "zp/schedule/rate_fit.h"

#include <algorithm>
#include <cmath>

namespace zp {
namespace {

constexpr double kForgetting = 0.97;  // a step counts half after 23 more
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
  // Divided by what is expected now, so that errors are relative.
  const double a = work.attention_seconds / expected;
  const double o = work.other_seconds / expected;
  const double pa = attention_variance_ * a + covariance_ * o;
  const double po = covariance_ * a + other_variance_ * o;
  const double variance = 1 + a * pa + o * po;
  const double error = work.seconds / expected - 1;
  factors_.attention = changed(factors_.attention, pa / variance * error);
  factors_.other = changed(factors_.other, po / variance * error);
  attention_variance_ = (attention_variance_ - pa * pa / variance) / kForgetting;
  other_variance_ = (other_variance_ - po * po / variance) / kForgetting;
  covariance_ = (covariance_ - pa * po / variance) / kForgetting;
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
