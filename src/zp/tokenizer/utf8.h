// How is UTF-8 walked and repaired (checked: base/utf8.h)? Everything here works on bytes and knows no tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zp::tokenizer {

/// One decoded code point and the bytes it took.
struct CodePoint {
  char32_t value = 0;
  uint32_t size_bytes = 0;
};

/// Decodes the code point at `text[offset]`. Requires valid UTF-8 and an offset at the start of a code point.
[[nodiscard]] inline CodePoint decode_valid(std::string_view text, std::size_t offset) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[offset + i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {((lead & 0x1F) << 6) | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {((lead & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F), 3};
  return {((lead & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F), 4};
}

/// The offset of the code point before `offset`. Requires valid UTF-8 and an offset above 0.
[[nodiscard]] inline std::size_t step_back(std::string_view text, std::size_t offset) noexcept {
  do {
    --offset;
  } while ((static_cast<unsigned char>(text[offset]) & 0xC0) == 0x80);
  return offset;
}

/// Appends a code point as UTF-8. Requires a Unicode scalar value.
void append_utf8(std::string& out, char32_t value);

/// Copies `bytes`, with U+FFFD for every maximal ill-formed part, as the Unicode standard recommends and Rust's
/// from_utf8_lossy does.
[[nodiscard]] std::string repair_utf8(std::string_view bytes);

}  // namespace zp::tokenizer
