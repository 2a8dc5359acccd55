// Is this text UTF-8?
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace zp {

/// What a text begins with: a code point, or what is none.
struct Utf8Part {
  std::size_t size_bytes = 0;  ///< of the code point, or of the maximal ill-formed part, as the Unicode standard has it
  bool valid = false;
};

/// Of non-empty text. Overlong forms, surrogates and values above U+10FFFF are not valid.
[[nodiscard]] Utf8Part first_utf8_part(std::string_view text) noexcept;

/// The offset of the first byte that starts no well-formed code point; empty when the text is valid UTF-8. Thread-safe.
[[nodiscard]] std::optional<std::size_t> find_invalid_utf8(std::string_view text);

}  // namespace zp
