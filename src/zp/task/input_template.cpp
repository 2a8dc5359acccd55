// How is a template split into literal text and columns, and filled?
#include "zp/task/input_template.h"

#include <fmt/format.h>

#include "zp/base/excerpt.h"
#include "zp/task/text_check.h"

namespace zp {
namespace {

constexpr std::string_view kOpen = "{{";
constexpr std::string_view kClose = "}}";
constexpr std::string_view kEscapedOpen = "{{{{";

}  // namespace

void InputTemplate::add_literal(std::string_view text) {
  if (text.empty()) return;
  if (parts_.empty() || parts_.back().is_column) parts_.push_back({.is_column = false, .text = {}});
  parts_.back().text += text;
}

InputTemplate InputTemplate::parse(std::string_view text) {
  InputTemplate result;
  bool has_column = false;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t open = text.find(kOpen, at);
    result.add_literal(text.substr(at, open - at));
    if (open == std::string_view::npos) break;
    if (text.substr(open).starts_with(kEscapedOpen)) {
      result.add_literal(kOpen);
      at = open + kEscapedOpen.size();
      continue;
    }
    const std::size_t close = text.find(kClose, open + kOpen.size());
    if (close == std::string_view::npos) {
      fail(ErrorCode::kInvalidArgument, "the '{{{{' at byte {} has no '}}}}'; a literal '{{{{' is written '{{{{{{{{'",
           open);
    }
    const std::string_view name = strip_whitespace(text.substr(open + kOpen.size(), close - open - kOpen.size()));
    if (name.empty()) fail(ErrorCode::kInvalidArgument, "the '{{{{ }}}}' at byte {} names no column", open);
    if (name.find_first_of("{}\n\r") != std::string_view::npos) {
      fail(ErrorCode::kInvalidArgument, "the place at byte {} names {}; a name holds no brace and no line break", open,
           quote_excerpt(name));
    }
    result.parts_.push_back({.is_column = true, .text = std::string(name)});
    has_column = true;
    at = close + kClose.size();
  }
  if (!has_column) {
    fail(ErrorCode::kInvalidArgument, "it uses no column ('{{{{ name }}}}'), so every row would be the same question");
  }
  return result;
}

std::optional<RowError> InputTemplate::render(const Row& row, std::string& out) const {
  const std::size_t size_before = out.size();
  std::string missing;
  std::string null;
  for (const Part& part : parts_) {
    if (!part.is_column) {
      out += part.text;
    } else if (const std::string* value = row.find(part.text)) {
      out += *value;
    } else {
      std::string& names = row.is_null(part.text) ? null : missing;
      if (!names.empty()) names += ", ";
      names += quote_excerpt(part.text);
    }
  }
  if (missing.empty() && null.empty()) return std::nullopt;
  out.resize(size_before);
  if (missing.empty()) {
    return RowError{.code = ErrorCode::kNotFound,
                    .message = fmt::format("line {}: the input template uses {}, null in this row; a value must be a "
                                           "string (\"\" for no text), a number, true, false, an array or an object",
                                           row.line, null)};
  }
  return RowError{.code = ErrorCode::kNotFound,
                  .message = fmt::format("line {}: the input template uses {}, but the row's columns are: {}", row.line,
                                         missing, describe_columns(row))};
}

}  // namespace zp
