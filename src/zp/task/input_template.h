// How does a row's text become the input of a question?
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zp/task/row.h"

namespace zp {

/// A text with places for columns: "Message: {{ text }}".
///
/// `{{ name }}` is replaced by the row's column of that name; spaces around the name do not count. A literal "{{" is
/// written "{{{{"; a "}}" or single brace outside a place is itself. What a column holds is never looked into again.
/// A column whose name is empty, holds a brace or a line break, or starts or ends with whitespace cannot be named.
/// Immutable, so any thread may render.
class InputTemplate final {
 public:
  InputTemplate() = default;

  /// Throws Error kInvalidArgument, naming what is wrong and at which character, unless every place is closed and
  /// named and there is at least one: without one every row would be the same question.
  [[nodiscard]] static InputTemplate parse(std::string_view text);

  /// Appends the rendered text to `out`. If the row lacks columns, or they are null: an error that names them and the
  /// row's columns, or what values there are, and `out` as it was.
  [[nodiscard]] std::optional<RowError> render(const Row& row, std::string& out) const;

 private:
  struct Part {
    bool is_column;
    std::string text;  // the literal text, or the column's name
  };
  void add_literal(std::string_view text);

  std::vector<Part> parts_;
};

}  // namespace zp
