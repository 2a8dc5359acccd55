// What question does a task ask of each row, and which answers may it have?
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zp/task/input_template.h"

namespace zp {

inline constexpr std::size_t kMinChoices = 2;
inline constexpr std::size_t kMaxChoices = 255;
inline constexpr std::size_t kMaxTaskBytes = std::size_t{1} << 20;

enum class TaskForm { kPredicate, kChoice };

/// How an answer is written as JSON. A plain YAML `true` is a bool and a plain `12` a number; a quoted one is a string.
enum class ScalarKind { kString, kBool, kNumber };

/// One answer the task may give.
struct TaskChoice {
  std::string value;  ///< As written in the task file ("1.50" stays "1.50"); the key in probabilities.
  ScalarKind kind = ScalarKind::kString;
  std::optional<std::string> description;
};

/// A validated task. A plain value: copy it, read it from any thread.
struct TaskSpec {
  TaskForm form = TaskForm::kChoice;
  std::string instructions;         ///< Trailing whitespace already stripped; not empty.
  std::vector<TaskChoice> choices;  ///< In the file's order. A predicate has two: true, then false.
  InputTemplate input;
  std::optional<std::string> id_column;
  std::optional<std::string> label_column;
};

/// Reads a task from YAML:
///
///     form: choice                     # or predicate
///     instructions: text               # not empty
///     choices:                         # choice only: 2 to 255 distinct values
///       - Other
///       - {value: GetWeather, description: asks about the weather}
///     input: "Message: {{ text }}"     # see InputTemplate
///     id_column: id                    # optional: else a row's id is its index
///     label_column: label              # optional: gives accuracy
///
/// A value or description is one line: each is one line of the prompt. Throws Error kInvalidArgument that lists every
/// problem found, each as `file:line: key: what, value, limit`. `file_name` is used in messages only. Thread-safe.
[[nodiscard]] TaskSpec parse_task_spec(std::string_view yaml, const std::string& file_name);

/// The same from a file. Throws kNotFound or kIo too, naming the path and the cause.
[[nodiscard]] TaskSpec load_task_spec(const std::string& path);

/// What a plain scalar is: true/false in YAML 1.2's three spellings, a JSON number of at most 15 characters, else a
/// string.
[[nodiscard]] ScalarKind classify_scalar(std::string_view text) noexcept;

/// The index of the choice that a label text means, or empty. Whitespace around the text does not count.
/// Predicate: true/yes/1 and false/no/0, whatever the case. Choice: the exact value; failing that, an equal bool
/// whatever its case or an equal number (1.0 means 1).
[[nodiscard]] std::optional<std::size_t> find_choice(const TaskSpec& spec, std::string_view label);

/// Whether two values would be the same answer: the same text, or equal bools or numbers.
[[nodiscard]] bool same_answer(const TaskChoice& a, const TaskChoice& b);

}  // namespace zp
