// How is text trimmed?
#include "zp/task/text_check.h"

#include <algorithm>

namespace zp {
namespace {

constexpr std::string_view kWhitespace = " \t\n\r\f\v";

}  // namespace

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
