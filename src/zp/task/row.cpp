// How are columns of a row found and named?
#include "zp/task/row.h"

#include <fmt/format.h>

#include "zp/task/text_check.h"

namespace zp {

const std::string* Row::find(std::string_view column) const noexcept {
  for (const auto& [name, value] : columns) {
    if (name == column) return &value;
  }
  return nullptr;
}

std::string describe_columns(const Row& row) {
  constexpr std::size_t kNamesShown = 20;
  if (row.columns.empty()) return "none";
  std::string names;
  for (std::size_t i = 0; i < row.columns.size() && i < kNamesShown; ++i) {
    if (i > 0) names += ", ";
    names += quote_excerpt(row.columns[i].first);
  }
  if (row.columns.size() > kNamesShown) names += fmt::format(" and {} more", row.columns.size() - kNamesShown);
  return names;
}

}  // namespace zp
