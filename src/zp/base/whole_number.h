// How is text read as a whole number?
#pragma once

#include <charconv>
#include <concepts>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace zp {

/// All of `text` as a number in [low, high]; nothing if it is something else. Decimal digits, after a minus if T has a
/// sign: no plus, no spaces, no fraction.
template <std::integral T>
[[nodiscard]] std::optional<T> to_whole_number(std::string_view text, T low = std::numeric_limits<T>::min(),
                                               T high = std::numeric_limits<T>::max()) noexcept {
  T value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < low || value > high) return std::nullopt;
  return value;
}

}  // namespace zp
