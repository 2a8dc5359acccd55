// Counts rows and keeps the first failure.
#include "collector.h"

namespace zp::app {

Collector::Collector(const std::string& output, size_t choices, const Clock* clock)
    : writer_(output), metrics_(choices) {
  if (clock != nullptr) progress_.emplace(*clock);
}

void Collector::take_error(const RowId& id, int64_t index, const RowError& error) noexcept {
  try {
    writer_.write(index, error_line(id, error));
    const std::lock_guard lock(mutex_);
    metrics_.add_error(error.code);
    count_row();
  } catch (...) {
    keep_failure();
  }
}

void Collector::expect_rows(int64_t rows) {
  const std::lock_guard lock(mutex_);
  if (progress_) progress_->expect(rows);
}

void Collector::rethrow_failure() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

TaskMetricsSummary Collector::close() {
  if (progress_) progress_->finish();
  rethrow_failure();
  (void)writer_.close();
  return metrics_.summarize();
}

void Collector::count_row() {
  ++done_;
  if (progress_) progress_->update(done_);
}

void Collector::keep_failure() noexcept {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::current_exception();
}

}  // namespace zp::app
