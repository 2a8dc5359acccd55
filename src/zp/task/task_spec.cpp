// Which scalars are bools and numbers, and which choice does a label mean?
#include "zp/task/task_spec.h"

#include <charconv>

#include "zp/task/json_text.h"
#include "zp/task/text_check.h"

namespace zp {
namespace {

std::optional<double> number_value(std::string_view text) noexcept {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

ScalarKind classify_scalar(std::string_view text) noexcept {
  for (const std::string_view word : {"true", "True", "TRUE", "false", "False", "FALSE"}) {
    if (text == word) return ScalarKind::kBool;
  }
  // A double keeps 15 digits, so a longer number could come back from a JSON reader as another one.
  constexpr std::size_t kMaxNumberBytes = 15;
  const bool number = text.size() <= kMaxNumberBytes && is_json_number(text) && number_value(text).has_value();
  return number ? ScalarKind::kNumber : ScalarKind::kString;
}

bool same_answer(const TaskChoice& a, const TaskChoice& b) {
  if (a.value == b.value) return true;
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case ScalarKind::kString: return false;
    case ScalarKind::kBool: return ascii_lower(a.value) == ascii_lower(b.value);
    case ScalarKind::kNumber: {
      const std::optional<double> x = number_value(a.value);
      return x.has_value() && x == number_value(b.value);
    }
  }
  return false;
}

std::optional<std::size_t> find_choice(const TaskSpec& spec, std::string_view label) {
  const std::string_view text = strip_whitespace(label);
  if (spec.form == TaskForm::kPredicate) {
    const std::string lower = ascii_lower(text);
    if (lower == "true" || lower == "yes" || lower == "1") return 0;
    if (lower == "false" || lower == "no" || lower == "0") return 1;
    return std::nullopt;
  }
  for (std::size_t i = 0; i < spec.choices.size(); ++i) {
    if (spec.choices[i].value == text || spec.choices[i].value == label) return i;
  }
  const TaskChoice wanted{.value = std::string(text), .kind = classify_scalar(text), .description = {}};
  for (std::size_t i = 0; i < spec.choices.size(); ++i) {
    if (same_answer(spec.choices[i], wanted)) return i;
  }
  return std::nullopt;
}

}  // namespace zp
