// In what order are labels tried, and which may be skipped?
#include "zp/task/label_set.h"

#include "zp/base/error.h"

namespace zp {
namespace {

constexpr std::size_t kLetters = 26;
constexpr std::size_t kSequenceLabels = kLetters + kLetters + kLetters * kLetters;

/// Label `i` of A..Z, a..z, AA..ZZ with its leading space.
std::string sequence_label(std::size_t i) {
  const auto letter = [](char first, std::size_t index) { return static_cast<char>(first + static_cast<int>(index)); };
  if (i < kLetters) return {' ', letter('A', i)};
  if (i < 2 * kLetters) return {' ', letter('a', i - kLetters)};
  const std::size_t pair = i - 2 * kLetters;
  return {' ', letter('A', pair / kLetters), letter('A', pair % kLetters)};
}

[[noreturn]] void refuse(std::string_view label) {
  fail(ErrorCode::kInvalidArgument,
       "the label '{}' is not one distinct token after the context, so this model's tokenizer cannot answer the task",
       label);
}

}  // namespace

std::vector<std::string> choose_labels(const TaskSpec& spec, const LabelCheck& check) {
  std::vector<std::string> labels;
  if (spec.form == TaskForm::kPredicate) {
    labels = {" Yes", " No"};
    for (const std::string& label : labels) {
      if (!check(label)) refuse(label);
    }
    return labels;
  }
  const std::size_t wanted = spec.choices.size();
  for (std::size_t i = 0; i < kSequenceLabels && labels.size() < wanted; ++i) {
    std::string label = sequence_label(i);
    if (check(label)) {
      labels.push_back(std::move(label));
    } else if (i < kLetters) {
      refuse(label);
    }
  }
  if (labels.size() < wanted) {
    fail(ErrorCode::kInvalidArgument,
         "the task has {} choices, but only {} of the {} labels are one distinct token of this model's tokenizer",
         wanted, labels.size(), kSequenceLabels);
  }
  return labels;
}

}  // namespace zp
