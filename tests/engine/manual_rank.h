// A rank that a test controls, step by step.
#pragma once

#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "zp/base/bounded_queue.h"
#include "zp/base/clock.h"
#include "zp/engine/rank.h"
#include "zp/shape/model_shape.h"

namespace zp::test {

/// Holds steps until the test lets them run. Logits are the request's last token id plus the candidate's number.
class ManualRank final : public StepRunner {
 public:
  /// Reports say the time of `clock`, or of the machine's if there is none.
  explicit ManualRank(Report report, const Clock* clock = nullptr)
      : report_(std::move(report)), clock_(clock != nullptr ? clock : &steady_clock_) {}
  void start(StepWork work) override { (void)started_.push(std::move(work)); }
  [[nodiscard]] Description description() const override { return {"manual", "none", "none"}; }

  /// Blocks until a step was started, and gives its token count.
  size_t run_one(std::exception_ptr failure = nullptr) { return run(*started_.pop(), std::move(failure)); }
  // Runs the next step if there is one yet.
  void run_if_started() {
    if (const std::optional<StepWork> work = started_.try_pop()) (void)run(*work, nullptr);
  }
  // Fails the next step if there is one yet.
  bool fail_if_started(std::exception_ptr failure) {
    const std::optional<StepWork> work = started_.try_pop();
    if (work) (void)run(*work, std::move(failure));
    return work.has_value();
  }

  /// Steps that were started and not run.
  [[nodiscard]] size_t started() const { return started_.size(); }

  std::vector<LayerWait> waits;  // what the next reports say

 private:
  size_t run(const StepWork& work, std::exception_ptr failure) {
    StepReport report;
    report.id = work.id;
    report.failure = std::move(failure);
    report.waits = waits;
    report.reported_ns = clock_->now_ns();
    for (size_t r = 0; r < work.step.head_rows.size(); ++r) {
      const auto last = static_cast<float>(work.step.ids[static_cast<size_t>(work.step.head_rows[r])]);
      for (int64_t c = work.step.candidate_offsets[r]; c < work.step.candidate_offsets[r + 1]; ++c)
        report.result.logits.push_back(last + static_cast<float>(c - work.step.candidate_offsets[r]));
      report.result.log_sum_exp.push_back(last);
    }
    report_(std::move(report));
    return work.step.ids.size();
  }

  Report report_;
  SteadyClock steady_clock_;
  const Clock* clock_;
  BoundedQueue<StepWork> started_{8};
};

/// One layer; scheduling depends on lengths alone.
inline ModelShape small_shape() {
  ModelShape shape;
  shape.layers = 1;
  shape.hidden = 8;
  shape.query_heads = shape.kv_heads = 1;
  shape.head_dim = 8;
  shape.vocabulary = 1000;
  shape.max_positions = 4096;
  shape.experts = 2;
  shape.experts_per_token = 1;
  shape.expert_intermediate = 8;
  shape.feed_forward = {FeedForward::kMoe};
  return shape;
}

}  // namespace zp::test
