// What text does the model read for one row?
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "zp/task/row.h"
#include "zp/task/task_spec.h"

namespace zp {

/// A row's index, or the text of its id column.
using RowId = std::variant<int64_t, std::string>;

/// A row ready for the engine. With an error, `context` is empty and `id` is the id if it could be read, else the
/// index.
struct PreparedRow {
  RowId id;
  std::string context;
  std::optional<std::size_t> label;  ///< Index of the labelled choice; empty if the row is not labelled.
  std::optional<RowError> error;
};

/// Renders contexts. Training renders the same bytes, so they are a format; it changes only with its golden tests:
///
///     choice:     {instructions}\nOptions:\nA. {value}: {description}\nB. {value}\n...
///                 Reply with the letter of one option.\n\n{input}\nAnswer:
///     predicate:  {instructions}\nReply with Yes or No.\n\n{input}\nAnswer:
///
/// Instructions and rendered input lose their trailing whitespace (see strip_trailing_whitespace); ": {description}"
/// is there only if the choice has one; an option's letter is its candidate label without the leading space. All
/// up to {input} is the same for each row, so the engine computes it once. Immutable, so any thread may render.
class PromptRenderer final {
 public:
  /// `labels` are choose_labels' for this spec: one a choice.
  PromptRenderer(TaskSpec spec, std::vector<std::string> labels);

  /// The row's context, id and label. A row that has an error, lacks a column that the task uses (or has null in it),
  /// or has a label that is none of the choices gets an error naming these; an empty label, null or none means not
  /// labelled.
  [[nodiscard]] PreparedRow prepare(const Row& row) const;

  [[nodiscard]] const TaskSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] const std::vector<std::string>& labels() const noexcept { return labels_; }

 private:
  [[nodiscard]] std::optional<RowError> fill(const Row& row, PreparedRow& prepared) const;

  TaskSpec spec_;
  std::vector<std::string> labels_;
  std::string before_input_;
};

}  // namespace zp
