// Which bytes may follow which.
#include "zp/base/utf8.h"

#include <simdjson.h>

namespace zp {
namespace {

// What follows a lead byte: how many bytes, and the range allowed for the first of them (which is what rules out
// overlong forms, surrogates and values past U+10FFFF).
struct Sequence {
  std::size_t size_bytes;
  unsigned char second_min;
  unsigned char second_max;
};

Sequence sequence_of(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Part first_utf8_part(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {1, true};
  const Sequence sequence = sequence_of(lead);
  if (sequence.size_bytes == 0) return {1, false};
  for (std::size_t i = 1; i < sequence.size_bytes; ++i) {
    if (i >= text.size()) return {i, false};
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? sequence.second_min : 0x80;
    const unsigned char high = i == 1 ? sequence.second_max : 0xBF;
    if (byte < low || byte > high) return {i, false};
  }
  return {sequence.size_bytes, true};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return std::nullopt;
  std::size_t offset = 0;
  while (offset < text.size()) {
    const Utf8Part part = first_utf8_part(text.substr(offset));
    if (!part.valid) return offset;
    offset += part.size_bytes;
  }
  return std::nullopt;
}

}  // namespace zp
