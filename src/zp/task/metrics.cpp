// How are counts turned into accuracy, macro F1 and an interval?
#include "zp/task/metrics.h"

#include <algorithm>
#include <cmath>

#include "zp/base/check.h"

namespace zp {
namespace {

// Whatever is not the row's own doing: it may well be answered another time.
bool is_lost(ErrorCode code) noexcept {
  return code == ErrorCode::kDevice || code == ErrorCode::kOutOfMemory || code == ErrorCode::kCancelled;
}

}  // namespace

Interval wilson_interval_95(int64_t successes, int64_t trials) {
  ZP_CHECK(successes >= 0 && successes <= trials, "{} successes in {} trials", successes, trials);
  if (trials == 0) return {};
  constexpr double kZ = 1.959963984540054;  // the 97.5 % point of the normal distribution
  const auto n = static_cast<double>(trials);
  const double p = static_cast<double>(successes) / n;
  const double scale = 1 + kZ * kZ / n;
  const double centre = (p + kZ * kZ / (2 * n)) / scale;
  const double half = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n)) / scale;
  // At the ends the exact bound is 0 or 1; rounding may leave it a hair beside.
  return {.low = successes == 0 ? 0 : centre - half, .high = successes == trials ? 1 : centre + half};
}

TaskMetrics::TaskMetrics(std::size_t choice_count) : counts_(choice_count) {}

void TaskMetrics::add_answer(std::size_t answer, std::optional<std::size_t> label) {
  ZP_CHECK(answer < counts_.size() && label.value_or(0) < counts_.size(), "answer {} or label {} of {} choices", answer,
           label.value_or(0), counts_.size());
  if (!label) {
    ++unlabelled_;
    return;
  }
  ++counts_[answer].answers;
  ++counts_[*label].labels;
  if (answer == *label) ++counts_[answer].correct;
}

void TaskMetrics::add_error(ErrorCode code) { ++failed_[code]; }

TaskMetricsSummary TaskMetrics::summarize() const {
  TaskMetricsSummary summary;
  summary.failed_by_code = failed_;
  for (const auto& [code, count] : failed_) {
    summary.failed += count;
    if (is_lost(code)) summary.lost += count;
  }
  int64_t most_labels = 0;
  int64_t classes = 0;
  double f1_sum = 0;
  for (const Counts& c : counts_) {
    summary.scored += c.labels;
    summary.correct += c.correct;
    most_labels = std::max(most_labels, c.labels);
    const int64_t seen = c.labels + c.answers;  // 2 tp + fp + fn
    if (seen == 0) continue;
    ++classes;
    f1_sum += 2.0 * static_cast<double>(c.correct) / static_cast<double>(seen);
  }
  summary.answered = summary.scored + unlabelled_;
  summary.rows = summary.answered + summary.failed;
  if (summary.scored == 0) return summary;
  const auto scored = static_cast<double>(summary.scored);
  summary.accuracy = static_cast<double>(summary.correct) / scored;
  summary.accuracy_95 = wilson_interval_95(summary.correct, summary.scored);
  summary.macro_f1 = f1_sum / static_cast<double>(classes);
  summary.majority_accuracy = static_cast<double>(most_labels) / scored;
  return summary;
}

}  // namespace zp
