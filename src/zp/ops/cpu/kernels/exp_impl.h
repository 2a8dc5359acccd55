// The exponential of a Vec that the including file chose.
#pragma once

namespace zp::cpu {
namespace {

constexpr int64_t kLanes = Vec::kLanes;
constexpr float kInfinity = __builtin_huge_valf();

/// Within 2 ulp; exp(0) is exactly 1, exp(-infinity) exactly 0, NaN stays NaN. Results below 2^-126 are zero.
/// Cephes' polynomial on [-ln(2) / 2, ln(2) / 2].
inline Vec exp(Vec x) {
  const Vec lowest = broadcast(-87.33654f);
  const Vec highest = broadcast(88.72283f);
  // The second operand is kept where one is NaN, so what is converted below is always a number.
  const Vec clamped = min(max(x, lowest), highest);
  const Vec n = round(mul(clamped, broadcast(1.44269504088896341f)));
  Vec r = fma(n, broadcast(-0.693359375f), clamped);
  r = fma(n, broadcast(2.12194440e-4f), r);
  Vec p = broadcast(1.9875691500e-4f);
  p = fma(p, r, broadcast(1.3981999507e-3f));
  p = fma(p, r, broadcast(8.3334519073e-3f));
  p = fma(p, r, broadcast(4.1665795894e-2f));
  p = fma(p, r, broadcast(1.6666665459e-1f));
  p = fma(p, r, broadcast(5.0000001201e-1f));
  p = add(fma(p, mul(r, r), r), broadcast(1.0f));
  Vec result = scale_by_power(p, n);
  result = select(less(x, lowest), broadcast(0.0f), result);
  result = select(less(highest, x), broadcast(kInfinity), result);
  return select(is_nan(x), x, result);
}

}  // namespace
}  // namespace zp::cpu
