// How is UTF-8 checked, and text trimmed and shortened?
#include "zp/task/text_check.h"

#include <simdjson.h>

#include <algorithm>
#include <cstdint>

namespace zp {
namespace {

constexpr std::string_view kWhitespace = " \t\n\r\f\v";

/// The length in bytes of the valid sequence at the start of non-empty `text`, or 0.
std::size_t valid_sequence_bytes(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // The second byte alone tells overlong forms, surrogates and values above U+10FFFF.
  const uint8_t second = byte(1);
  if (first == 0xE0 && second < 0xA0) return 0;
  if (first == 0xED && second > 0x9F) return 0;
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second > 0x8F) return 0;
  return length;
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  if (simdjson::validate_utf8(text)) return std::nullopt;
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::size_t length = valid_sequence_bytes(text.substr(offset));
    if (length == 0) break;
    offset += length;
  }
  return offset;
}

std::string_view strip_trailing_whitespace(std::string_view text) noexcept {
  return text.substr(0, text.find_last_not_of(kWhitespace) + 1);  // npos + 1 is 0
}

std::string_view strip_whitespace(std::string_view text) noexcept {
  text = strip_trailing_whitespace(text);
  text.remove_prefix(std::min(text.find_first_not_of(kWhitespace), text.size()));
  return text;
}

std::string ascii_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string quote_excerpt(std::string_view text) {
  constexpr std::size_t kMaxBytes = 60;
  std::string quoted = "'";
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::size_t length = std::max<std::size_t>(valid_sequence_bytes(text.substr(offset)), 1);
    if (offset + length > kMaxBytes) break;
    const auto first = static_cast<uint8_t>(text[offset]);
    const bool printable = first >= 0x20 && first != 0x7F && (first < 0x80 || length > 1);
    quoted += printable ? text.substr(offset, length) : "?";
    offset += length;
  }
  quoted += offset < text.size() ? "...'" : "'";
  return quoted;
}

}  // namespace zp
