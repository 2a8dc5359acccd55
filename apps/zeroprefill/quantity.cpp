// Numbers and their units.
#include "quantity.h"

#include "zp/base/error.h"
#include "zp/base/excerpt.h"

namespace zp::app {

std::optional<double> parse_quantity(const std::string& option, const std::string& text, const Units& units,
                                     const char* kind) {
  if (text.empty()) return std::nullopt;
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string number = text.substr(0, digits);
  const auto unit = units.find(digits == std::string::npos ? "" : text.substr(digits));
  double value = 0;
  size_t used = 0;
  try {
    value = std::stod(number, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (number.empty() || used != number.size() || unit == units.end())
    fail(ErrorCode::kInvalidArgument, "{} is {}; it must be {}", option, quote_excerpt(text), kind);
  return value * unit->second;
}

std::optional<uint64_t> parse_bytes(const std::string& option, const std::string& text) {
  static const Units kUnits = {{"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                               {"TiB", 0x1p40}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9}};
  const auto bytes = parse_quantity(option, text, kUnits, "a size such as 0, 512MiB or 8GiB");
  if (!bytes) return std::nullopt;
  if (!(*bytes < 0x1p62))
    fail(ErrorCode::kInvalidArgument, "{} is {}; the limit is 4096PiB", option, quote_excerpt(text));
  return static_cast<uint64_t>(*bytes);
}

}  // namespace zp::app
