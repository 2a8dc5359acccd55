// Which text is a JSON number, and how does a text look as a JSON string?
#pragma once

#include <string>
#include <string_view>

namespace zp {

/// Whether the whole text is a number by RFC 8259's grammar ("01", "+1", ".5" and "1." are not).
[[nodiscard]] bool is_json_number(std::string_view text) noexcept;

/// Appends the text as a JSON string, escaping only what must be: the bytes of Python's
/// `json.dumps(text, ensure_ascii=False)`. Requires valid UTF-8; invalid bytes become U+FFFD.
void append_json_string(std::string_view text, std::string& out);

}  // namespace zp
