// The update of a Kalman filter of two constants.
#include "zp/schedule/rate_fit.h"

#include <algorithm>
#include <cmath>

namespace zp {
namespace {

constexpr double kForgetting = 0.97;  // a step counts half after 23 more
constexpr double kFactorMin = 1.0 / 64;
constexpr double kFactorMax = 64;

}  // namespace

void RateFit::observe(const TimedWork& work) {
  if (!(work.seconds > 0 && std::isfinite(work.seconds))) return;
  // Divided by what is expected now, so that errors are relative.
  const double expected = factors_.attention * work.attention_seconds + factors_.other * work.other_seconds;
  if (!(expected > 0 && std::isfinite(expected))) return;
  const double a = work.attention_seconds / expected;
  const double o = work.other_seconds / expected;
  const double pa = attention_variance_ * a + covariance_ * o;
  const double po = covariance_ * a + other_variance_ * o;
  const double variance = 1 + a * pa + o * po;
  const double error = work.seconds / expected - 1;
  factors_.attention = std::clamp(factors_.attention + pa / variance * error, kFactorMin, kFactorMax);
  factors_.other = std::clamp(factors_.other + po / variance * error, kFactorMin, kFactorMax);
  const auto aged = [](double value) { return value / kForgetting; };
  attention_variance_ = aged(attention_variance_ - pa * pa / variance);
  other_variance_ = aged(other_variance_ - po * po / variance);
  covariance_ = aged(covariance_ - pa * po / variance);
  // What is not observed must not become anybody's guess.
  const double most = std::max(attention_variance_, other_variance_);
  if (most > kVarianceMax) {
    const double scale = kVarianceMax / most;
    attention_variance_ *= scale;
    other_variance_ *= scale;
    covariance_ *= scale;
  }
}

}  // namespace zp
