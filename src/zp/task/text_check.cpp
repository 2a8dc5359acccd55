// How is UTF-8 checked, and text trimmed?
#include "zp/task/text_check.h"

#include <simdjson.h>

#include <algorithm>

#include "zp/base/excerpt.h"

namespace zp {
namespace {

constexpr std::string_view kWhitespace = " \t\n\r\f\v";

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

}  // namespace zp
