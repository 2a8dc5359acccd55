// What of a text is fit to be shown?
#include "zp/base/excerpt.h"

#include <cstdint>

#include "zp/base/utf8.h"

namespace zp {
namespace {

// A code point, or a byte that starts none.
bool is_printable(std::string_view sequence) {
  const auto first = static_cast<uint8_t>(sequence[0]);
  if (sequence.size() == 1) return first >= 0x20 && first < 0x7F;
  if (sequence >= "\u0080" && sequence <= "\u009F") return false;  // further control characters
  // Ends of lines and paragraphs, and what turns the direction of the text after it.
  return !(sequence >= "\u2028" && sequence <= "\u202E") && !(sequence >= "\u2066" && sequence <= "\u2069");
}

// Of a code point at the start of `text`, or of one byte that starts none.
std::size_t shown_bytes(std::string_view text) {
  const Utf8Part part = first_utf8_part(text);
  return part.valid ? part.size_bytes : 1;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  for (std::size_t length = 0; !text.empty(); text.remove_prefix(length)) {
    length = shown_bytes(text);
    const std::string_view sequence = text.substr(0, length);
    shown += is_printable(sequence) ? sequence : "?";
  }
  return shown;
}

std::string quote_excerpt(std::string_view text) {
  constexpr std::size_t kMaxBytes = 60;
  std::size_t kept = 0;
  while (kept < text.size()) {
    const std::size_t length = shown_bytes(text.substr(kept));
    if (kept + length > kMaxBytes) break;
    kept += length;
  }
  return "'" + printable(text.substr(0, kept)) + (kept < text.size() ? "...'" : "'");
}

}  // namespace zp
