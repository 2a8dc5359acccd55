// Typed access to the keys of a config.json.
#include "zp/model/config_reader.h"

#include <limits>

#include "zp/base/error.h"

namespace zp {

std::optional<simdjson::dom::element> ConfigReader::find(std::string_view key) const {
  simdjson::dom::element value;
  if (root_.at_key(key).get(value) || value.is_null()) return std::nullopt;
  return value;
}

void ConfigReader::unsupported(std::string_view key, std::string_view reason) const {
  fail(ErrorCode::kUnsupported, "{}: '{}': {}", path_.string(), key, reason);
}

void ConfigReader::corrupt(std::string_view key, std::string_view reason) const {
  fail(ErrorCode::kCorrupt, "{}: '{}' {}", path_.string(), key, reason);
}

bool ConfigReader::has(std::string_view key) const { return find(key).has_value(); }

int32_t ConfigReader::count(std::string_view key, std::optional<int32_t> fallback) const {
  const auto value = find(key);
  if (!value) {
    if (!fallback) corrupt(key, "is missing");
    return *fallback;
  }
  int64_t number = 0;
  if (value->get(number)) corrupt(key, "is not an integer");
  if (number < 0 || number > std::numeric_limits<int32_t>::max())
    corrupt(key, fmt::format("is {}; it must lie in [0, {}]", number, std::numeric_limits<int32_t>::max()));
  return static_cast<int32_t>(number);
}

double ConfigReader::number(std::string_view key, std::optional<double> fallback) const {
  const auto value = find(key);
  if (!value) {
    if (!fallback) corrupt(key, "is missing");
    return *fallback;
  }
  double number = 0;
  if (value->get(number)) corrupt(key, "is not a number");
  return number;
}

bool ConfigReader::flag(std::string_view key, bool fallback) const {
  const auto value = find(key);
  if (!value) return fallback;
  bool flag = false;
  if (value->get(flag)) corrupt(key, "is neither true nor false");
  return flag;
}

std::string ConfigReader::text(std::string_view key, std::string_view fallback) const {
  const auto value = find(key);
  if (!value) return std::string(fallback);
  std::string_view text;
  if (value->get(text)) corrupt(key, "is not a string");
  return std::string(text);
}

std::vector<int32_t> ConfigReader::counts(std::string_view key) const {
  const auto value = find(key);
  if (!value) return {};
  simdjson::dom::array array;
  if (value->get(array)) corrupt(key, "is not a list");
  std::vector<int32_t> counts;
  for (const simdjson::dom::element element : array) {
    int64_t number = 0;
    if (element.get(number) || number < 0 || number > std::numeric_limits<int32_t>::max())
      corrupt(key, "has an element that is no count");
    counts.push_back(static_cast<int32_t>(number));
  }
  return counts;
}

std::optional<ConfigReader> ConfigReader::object(std::string_view key) const {
  const auto value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) corrupt(key, "is not an object");
  return ConfigReader(path_, *value);
}

}  // namespace zp
