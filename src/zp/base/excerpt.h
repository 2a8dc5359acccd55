// How is a piece of text that a user sent shown in a message?
#pragma once

#include <string>
#include <string_view>

namespace zp {

/// The text with '?' for what a terminal would act on instead of showing it: control characters, changes of direction,
/// and bytes that are not UTF-8.
[[nodiscard]] std::string printable(std::string_view text);

/// The text, printable(), in single quotes for a message, cut after 60 bytes.
[[nodiscard]] std::string quote_excerpt(std::string_view text);

}  // namespace zp
