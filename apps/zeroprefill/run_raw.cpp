// Submits requests as they are, and writes what the engine found.
#include "run_raw.h"

#include <mutex>
#include <nlohmann/json.hpp>

#include "zp/task/answer.h"
#include "zp/task/answer_writer.h"

namespace zp::app {
namespace {

std::string raw_line(const RowId& id, const Answer& answer, const Scores& scores) {
  nlohmann::ordered_json line;
  if (const auto* index = std::get_if<int64_t>(&id))
    line["id"] = *index;
  else
    line["id"] = std::get<std::string>(id);
  line["best"] = scores.best;
  line["logits"] = answer.logits;
  line["logprobs"] = scores.logprobs;
  line["vocab_logprobs"] = scores.vocab_logprobs;
  line["prompt_tokens"] = answer.prompt_tokens;
  line["cached_tokens"] = answer.cached_tokens;
  return line.dump();
}

// Takes outcomes on the engine's thread. A failed write must stop the reading, and callbacks may not throw: it is kept.
class Collector final {
 public:
  explicit Collector(const std::string& output) : writer_(output) {}

  void take(const RowId& id, int64_t index, const Outcome& outcome) noexcept {
    try {
      if (const auto* failure = std::get_if<Failure>(&outcome))
        return take_error(id, index, {failure->code, failure->message});
      const auto& answer = std::get<Answer>(outcome);
      const ItemResult item{.logits = {answer.logits.begin(), answer.logits.end()},
                            .log_sum_exp = answer.log_sum_exp,
                            .prompt_tokens = answer.prompt_tokens,
                            .cached_tokens = answer.cached_tokens};
      const auto scored = score_candidates(item, answer.logits.size());
      if (const auto* error = std::get_if<RowError>(&scored)) return take_error(id, index, *error);
      writer_.write(index, raw_line(id, answer, std::get<Scores>(scored)));
      const std::lock_guard lock(mutex_);
      metrics_.add_answer(0, std::nullopt);
    } catch (...) {
      keep_failure();
    }
  }

  void take_error(const RowId& id, int64_t index, const RowError& error) noexcept {
    try {
      writer_.write(index, error_line(id, error));
      const std::lock_guard lock(mutex_);
      metrics_.add_error(error.code);
    } catch (...) {
      keep_failure();
    }
  }

  void rethrow_failure() const {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

  TaskMetricsSummary close() {
    rethrow_failure();
    (void)writer_.close();
    return metrics_.summarize();
  }

 private:
  void keep_failure() noexcept {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }

  AnswerWriter writer_;
  mutable std::mutex mutex_;
  TaskMetrics metrics_{1};      // guarded by mutex_; there is no choice that could be right
  std::exception_ptr failure_;  // guarded by mutex_
};

void submit_rows(RawRows& rows, Engine& engine, Collector& collector) {
  int64_t index = 0;
  while (std::optional<RawRow> row = rows.next()) {
    collector.rethrow_failure();
    const int64_t at = index++;
    if (const auto* error = std::get_if<RowError>(&row->request)) {
      collector.take_error(row->id, at, *error);
      continue;
    }
    try {
      (void)engine.submit(
          std::get<Request>(row->request),
          [id = row->id, at, &collector](uint64_t, const Outcome& outcome) { collector.take(id, at, outcome); });
    } catch (const Error& error) {
      collector.take_error(row->id, at, {error.code(), error.what()});
    }
  }
}

}  // namespace

TaskMetricsSummary run_raw(RawRows& rows, Engine& engine, const std::string& output) {
  Collector collector(output);
  try {
    submit_rows(rows, engine, collector);
  } catch (...) {
    engine.drain();  // callbacks refer to the collector
    throw;
  }
  engine.drain();
  return collector.close();
}

}  // namespace zp::app
