// How are JSON numbers recognised and strings escaped?
#include "zp/task/json_text.h"

#include <nlohmann/json.hpp>

namespace zp {
namespace {

/// Removes the digits at the start; false if there are none.
bool take_digits(std::string_view& text) noexcept {
  std::size_t count = 0;
  while (count < text.size() && text[count] >= '0' && text[count] <= '9') ++count;
  text.remove_prefix(count);
  return count > 0;
}

}  // namespace

bool is_json_number(std::string_view text) noexcept {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.starts_with('0')) {
    text.remove_prefix(1);
  } else if (!take_digits(text)) {
    return false;
  }
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!take_digits(text)) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (!take_digits(text)) return false;
  }
  return text.empty();
}

void append_json_string(std::string_view text, std::string& out) {
  using nlohmann::json;
  out += json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace zp
