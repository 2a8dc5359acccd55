// What of a text is fit to be shown?
#include "zp/base/excerpt.h"

#include <algorithm>
#include <cstdint>

namespace zp {
namespace {

// One sequence that valid_sequence_bytes() takes, or a byte that it does not.
bool is_printable(std::string_view sequence) {
  const auto first = static_cast<uint8_t>(sequence[0]);
  if (sequence.size() == 1) return first >= 0x20 && first < 0x7F;
  if (sequence >= "\u0080" && sequence <= "\u009F") return false;  // further control characters
  // Ends of lines and paragraphs, and what turns the direction of the text after it.
  return !(sequence >= "\u2028" && sequence <= "\u202E") && !(sequence >= "\u2066" && sequence <= "\u2069");
}

}  // namespace

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

std::string printable(std::string_view text) {
  std::string shown;
  for (std::size_t length = 0; !text.empty(); text.remove_prefix(length)) {
    length = std::max<std::size_t>(valid_sequence_bytes(text), 1);
    const std::string_view sequence = text.substr(0, length);
    shown += is_printable(sequence) ? sequence : "?";
  }
  return shown;
}

std::string quote_excerpt(std::string_view text) {
  constexpr std::size_t kMaxBytes = 60;
  std::size_t kept = 0;
  while (kept < text.size()) {
    const std::size_t length = std::max<std::size_t>(valid_sequence_bytes(text.substr(kept)), 1);
    if (kept + length > kMaxBytes) break;
    kept += length;
  }
  return "'" + printable(text.substr(0, kept)) + (kept < text.size() ? "...'" : "'");
}

}  // namespace zp
