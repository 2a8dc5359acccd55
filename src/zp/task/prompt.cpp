// How are instructions, options and input put together?
#include "zp/task/prompt.h"

#include <fmt/format.h>

#include <utility>

#include "zp/base/check.h"
#include "zp/base/excerpt.h"
#include "zp/task/text_check.h"

namespace zp {
namespace {

std::string render_before_input(const TaskSpec& spec, const std::vector<std::string>& labels) {
  std::string text(strip_trailing_whitespace(spec.instructions));
  if (spec.form == TaskForm::kPredicate) return text + "\nReply with Yes or No.\n\n";
  text += "\nOptions:\n";
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const TaskChoice& choice = spec.choices[i];
    text.append(labels[i], 1).append(". ").append(choice.value);
    if (choice.description) text.append(": ").append(*choice.description);
    text += '\n';
  }
  return text + "Reply with the letter of one option.\n\n";
}

RowError lacks_column(const Row& row, std::string_view key, std::string_view column) {
  return {.code = ErrorCode::kNotFound,
          .message = fmt::format("line {}: {} is {}, but the row's columns are: {}", row.line, key,
                                 quote_excerpt(column), describe_columns(row))};
}

/// Up to five of the values a label may have.
std::string describe_choices(const TaskSpec& spec) {
  constexpr std::size_t kShown = 5;
  if (spec.form == TaskForm::kPredicate) return "true, false, yes, no, 1 or 0";
  std::string text = "one of the " + fmt::to_string(spec.choices.size()) + " choices (";
  for (std::size_t i = 0; i < spec.choices.size() && i < kShown; ++i) {
    text.append(i == 0 ? "" : ", ").append(quote_excerpt(spec.choices[i].value));
  }
  return text + (spec.choices.size() > kShown ? ", ...)" : ")");
}

}  // namespace

PromptRenderer::PromptRenderer(TaskSpec spec, std::vector<std::string> labels)
    : spec_(std::move(spec)), labels_(std::move(labels)) {
  ZP_CHECK(labels_.size() == spec_.choices.size(), "{} labels for {} choices", labels_.size(), spec_.choices.size());
  before_input_ = render_before_input(spec_, labels_);
}

PreparedRow PromptRenderer::prepare(const Row& row) const {
  PreparedRow prepared{.id = row.index, .context = {}, .label = {}, .error = row.error};
  if (!prepared.error) prepared.error = fill(row, prepared);
  if (prepared.error) {
    prepared.context.clear();
    prepared.label.reset();
  }
  return prepared;
}

std::optional<RowError> PromptRenderer::fill(const Row& row, PreparedRow& prepared) const {
  if (spec_.id_column) {
    const std::string* id = row.find(*spec_.id_column);
    if (!id) return lacks_column(row, "id_column", *spec_.id_column);
    prepared.id = *id;
  }
  if (spec_.label_column) {
    // The same task file serves rows that nobody has labelled yet.
    const std::string* label = row.find(*spec_.label_column);
    if (label) prepared.label = find_choice(spec_, *label);
    if (label && !prepared.label && !strip_whitespace(*label).empty()) {
      return RowError{
          .code = ErrorCode::kInvalidArgument,
          .message = fmt::format("line {}: the label in column {} is {}, but must be {}, or empty", row.line,
                                 quote_excerpt(*spec_.label_column), quote_excerpt(*label), describe_choices(spec_))};
    }
  }
  std::string input;
  if (std::optional<RowError> error = spec_.input.render(row, input)) return error;
  prepared.context = fmt::format("{}{}\nAnswer:", before_input_, strip_trailing_whitespace(input));
  return std::nullopt;
}

}  // namespace zp
