// Takes the engine's outcomes and writes a line a row.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "progress.h"
#include "zeroprefill/engine.h"
#include "zp/base/clock.h"
#include "zp/task/answer.h"
#include "zp/task/answer_writer.h"
#include "zp/task/metrics.h"

namespace zp::app {

/// Called on the engine's thread and on the one that reads rows. A failed write must stop the reading, and callbacks
/// may not throw: it is kept.
class Collector final {
 public:
  /// `choices` can be right. Progress is shown by `clock`, if there is one, which outlives this.
  Collector(const std::string& output, size_t choices, const Clock* clock);

  /// One row's outcome, of `candidates`. `write` makes its line of the answer, the item and its scores; `grade` counts
  /// it.
  template <typename Write, typename Grade>
  void take(const RowId& id, int64_t index, const Outcome& outcome, size_t candidates, Write&& write,
            Grade&& grade) noexcept {
    try {
      if (const auto* failure = std::get_if<Failure>(&outcome))
        return take_error(id, index, {failure->code, failure->message});
      const auto& answer = std::get<Answer>(outcome);
      const ItemResult item{.logits = {answer.logits.begin(), answer.logits.end()},
                            .log_sum_exp = answer.log_sum_exp,
                            .prompt_tokens = answer.prompt_tokens,
                            .cached_tokens = answer.cached_tokens};
      const auto scored = score_candidates(item, candidates);
      if (const auto* error = std::get_if<RowError>(&scored)) return take_error(id, index, *error);
      const auto& scores = std::get<Scores>(scored);
      writer_.write(index, write(answer, item, scores));
      const std::lock_guard lock(mutex_);
      grade(metrics_, scores);
      count_row();
    } catch (...) {
      keep_failure();
    }
  }
  void take_error(const RowId& id, int64_t index, const RowError& error) noexcept;
  /// For the progress.
  void expect_rows(int64_t rows);
  /// Throws the first failure to write.
  void rethrow_failure() const;
  /// Throws likewise.
  TaskMetricsSummary close();

 private:
  void count_row();
  void keep_failure() noexcept;

  AnswerWriter writer_;
  mutable std::mutex mutex_;
  TaskMetrics metrics_;               // guarded by mutex_
  std::optional<Progress> progress_;  // guarded by mutex_
  int64_t done_ = 0;                  // guarded by mutex_
  std::exception_ptr failure_;        // guarded by mutex_
};

}  // namespace zp::app
