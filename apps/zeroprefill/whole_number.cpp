// Reads digits.
#include "whole_number.h"

#include "zp/base/excerpt.h"
#include "zp/base/whole_number.h"

namespace zp::app {

uint64_t parse_whole_number(const std::string& option, const std::string& text, uint64_t largest) {
  if (const auto value = to_whole_number<uint64_t>(text, 0, largest)) return *value;
  const std::string digits = text.starts_with('-') ? text.substr(1) : text;
  constexpr size_t kDigitsShown = 40;
  const bool is_number =
      digits.size() <= kDigitsShown && !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
  throw CLI::ValidationError(fmt::format("{} is {}; it must be a whole number in [0, {}]", option,
                                         is_number ? text : quote_excerpt(text), largest));
}

}  // namespace zp::app
