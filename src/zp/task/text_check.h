// What is this text without the whitespace around it?
#pragma once

#include <string>
#include <string_view>

namespace zp {

/// The text without the whitespace at its end: space, tab, newline, carriage return, form feed, vertical tab.
/// ASCII only, so that it equals Python's `rstrip(" \t\n\r\f\v")`.
[[nodiscard]] std::string_view strip_trailing_whitespace(std::string_view text) noexcept;

/// The text without that whitespace at either end.
[[nodiscard]] std::string_view strip_whitespace(std::string_view text) noexcept;

/// The text with A to Z as a to z; other bytes unchanged.
[[nodiscard]] std::string ascii_lower(std::string_view text);

}  // namespace zp
