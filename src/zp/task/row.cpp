// How are columns of a row found and named?
#include "zp/task/row.h"

#include <fmt/format.h>

#include <algorithm>

#include "zp/base/excerpt.h"

namespace zp {

const std::string* Row::find(std::string_view column) const noexcept {
  for (const auto& [name, value] : columns) {
    if (name == column) return &value;
  }
  return nullptr;
}

bool Row::is_null(std::string_view column) const noexcept {
  return std::find(nulls.begin(), nulls.end(), column) != nulls.end();
}

std::string describe_columns(const Row& row) {
  constexpr std::size_t kNamesShown = 20;
  const std::size_t count = row.columns.size() + row.nulls.size();
  if (count == 0) return "none";
  std::string names;
  for (std::size_t i = 0; i < count && i < kNamesShown; ++i) {
    if (i > 0) names += ", ";
    const bool has_value = i < row.columns.size();
    names += quote_excerpt(has_value ? row.columns[i].first : row.nulls[i - row.columns.size()]);
    if (!has_value) names += " (null)";
  }
  if (count > kNamesShown) names += fmt::format(" and {} more", count - kNamesShown);
  return names;
}

}  // namespace zp
