// Compares results with expectations: element by element, in aggregate, and by where NaN and infinity are.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace zp::test {

/// What a result should be, and how far each element may be off, by the derivation in the test.
struct Expected {
  std::vector<double> values;
  std::vector<double> bounds;
  /// Bound of ||actual - expected|| / ||expected||. Element bounds must hold in the worst case and so are loose for
  /// long sums; errors that are random add up to far less, and a systematic one shows here.
  double aggregate = 0;

  void add(double value, double bound) {
    values.push_back(value);
    bounds.push_back(bound);
  }
};

namespace internal {

inline bool same_class(double actual, double expected) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::isfinite(actual);
}

}  // namespace internal

/// Fails when sizes differ, NaN or infinities (with sign) are elsewhere, an element is out of its bound, or the
/// aggregate error is too large. Where nothing finite is expected but zeros, the actual values must be within bounds.
inline ::testing::AssertionResult matches(std::span<const float> actual, const Expected& expected) {
  if (expected.bounds.size() != expected.values.size())
    return ::testing::AssertionFailure() << "the expectation has " << expected.values.size() << " values and "
                                         << expected.bounds.size() << " bounds";
  if (actual.size() != expected.values.size())
    return ::testing::AssertionFailure() << actual.size() << " elements, expected " << expected.values.size();
  double error_squares = 0;
  double squares = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const auto value = static_cast<double>(actual[i]);
    const double wanted = expected.values[i];
    if (!internal::same_class(value, wanted))
      return ::testing::AssertionFailure() << "element " << i << " is " << value << ", expected " << wanted;
    if (!std::isfinite(wanted)) continue;
    const double error = std::abs(value - wanted);
    // Written so that a bound that is NaN fails.
    if (!(error <= expected.bounds[i]))
      return ::testing::AssertionFailure() << "element " << i << " is " << value << ", expected " << wanted
                                           << " within " << expected.bounds[i] << ", is off by " << error;
    error_squares += error * error;
    squares += wanted * wanted;
  }
  if (squares == 0) return ::testing::AssertionSuccess();
  const double aggregate = std::sqrt(error_squares / squares);
  if (!(aggregate <= expected.aggregate))
    return ::testing::AssertionFailure() << "aggregate error " << aggregate << ", allowed " << expected.aggregate;
  return ::testing::AssertionSuccess() << "aggregate error " << aggregate;
}

/// Fails unless all bytes are equal, naming the first that is not.
inline ::testing::AssertionResult same_bytes(std::span<const std::byte> actual, std::span<const std::byte> expected) {
  if (actual.size() != expected.size())
    return ::testing::AssertionFailure() << actual.size() << " bytes, expected " << expected.size();
  if (actual.empty() || std::memcmp(actual.data(), expected.data(), actual.size()) == 0)
    return ::testing::AssertionSuccess();
  size_t i = 0;
  while (actual[i] == expected[i]) ++i;
  return ::testing::AssertionFailure() << "byte " << i << " of " << actual.size() << " is "
                                       << std::to_integer<int>(actual[i]) << ", expected "
                                       << std::to_integer<int>(expected[i]);
}

}  // namespace zp::test
