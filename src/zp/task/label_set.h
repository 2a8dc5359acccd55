// Which candidate labels stand for a task's choices?
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "zp/task/task_spec.h"

namespace zp {

/// Tells whether a label (with its leading space) is one token after the context, distinct from those it accepted
/// before.
using LabelCheck = std::function<bool(std::string_view label)>;

/// One label a choice, each with its leading space. Predicate: " Yes" (true), " No". Choice: " A" to " Z", " a" to
/// " z", " AA" to " ZZ"; of these, labels after " Z" that fail the check are skipped.
/// `check` is called in that order, at most once a label and never after enough were accepted.
/// Throws Error kInvalidArgument, naming the label, if one of the first 26 or Yes or No fails; and with both counts if
/// there are too few. Thread-safe if `check` is.
[[nodiscard]] std::vector<std::string> choose_labels(const TaskSpec& spec, const LabelCheck& check);

}  // namespace zp
