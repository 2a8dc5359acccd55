// How often is a task right, and how sure is that number?
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "zp/base/error.h"

namespace zp {

struct Interval {
  double low = 0;
  double high = 1;
};

/// Wilson's score interval of 95 % for a proportion; [0, 1] without trials. Requires 0 <= successes <= trials.
[[nodiscard]] Interval wilson_interval_95(int64_t successes, int64_t trials);

/// What a run was worth. The four scores are over `scored` rows, those with both an answer and a label; empty if none.
struct TaskMetricsSummary {
  int64_t rows = 0;
  int64_t answered = 0;
  int64_t scored = 0;
  int64_t correct = 0;
  int64_t failed = 0;  ///< rows == answered + failed
  std::map<ErrorCode, int64_t> failed_by_code;
  int64_t lost = 0;                ///< of the failed: for no fault of the row, but because a device failed, say
  std::optional<double> accuracy;  ///< correct / scored
  Interval accuracy_95;            ///< Wilson's interval.
  /// The mean over classes of 2 tp / (2 tp + fp + fn), where the classes are those that some label or some answer of a
  /// scored row has; as scikit-learn's f1_score(average="macro").
  std::optional<double> macro_f1;
  std::optional<double> majority_accuracy;  ///< Of always answering the most frequent label: the score to beat.
};

/// Counts rows in constant memory. One thread at a time.
class TaskMetrics final {
 public:
  explicit TaskMetrics(std::size_t choice_count);

  /// Counts a row that was answered; `label` is empty if it has none. Requires indexes below choice_count.
  void add_answer(std::size_t answer, std::optional<std::size_t> label);
  /// Counts a row that has an error instead of an answer.
  void add_error(ErrorCode code);

  [[nodiscard]] TaskMetricsSummary summarize() const;

 private:
  struct Counts {
    int64_t labels = 0;
    int64_t answers = 0;
    int64_t correct = 0;
  };
  std::vector<Counts> counts_;  // [choices], of scored rows
  int64_t unlabelled_ = 0;
  std::map<ErrorCode, int64_t> failed_;
};

}  // namespace zp
