// Integer arithmetic whose rounding is said by its name.
#pragma once

#include <concepts>

#include "zp/base/check.h"

namespace zp {

/// The smallest integer not below value / divisor, for value >= 0 and divisor > 0.
template <std::integral T>
[[nodiscard]] constexpr T ceil_div(T value, T divisor) noexcept {
  return static_cast<T>((value + divisor - 1) / divisor);
}

/// The smallest multiple of `multiple` not below `value`, for value >= 0 and multiple > 0.
template <std::integral T>
[[nodiscard]] constexpr T round_up(T value, T multiple) noexcept {
  return static_cast<T>(ceil_div(value, multiple) * multiple);
}

/// value / divisor where the division leaves no rest; anything else is a bug.
template <std::integral T>
[[nodiscard]] T div_exact(T value, T divisor) {
  ZP_CHECK(divisor != 0 && value % divisor == 0, "{} is no multiple of {}", value, divisor);
  return static_cast<T>(value / divisor);
}

}  // namespace zp
