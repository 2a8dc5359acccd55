// A synchronous group on a checkpoint, run with steps that a test lays out, next to a single rank.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tests/model/model_under_test.h"
#include "zp/engine/group_setup.h"
#include "zp/engine/lockstep_group.h"

namespace zp::test {

struct GroupOptions {
  std::string strategy;
  int32_t ranks = 1;
  ComputeType compute = ComputeType::kF32;
  int64_t chunk_tokens = 64;
};

class GroupUnderTest final {
 public:
  GroupUnderTest(const std::filesystem::path& folder, const GroupOptions& options)
      : files_(folder), setup_(make_group_setup(config_of(folder, options), files_)) {
    group_ = std::make_unique<LockstepGroup>(*setup_.group, files_, clock_);
    for (int32_t i = 0; i < LockstepGroup::runner_count(setup_.group->layout); ++i)
      runners_.push_back(group_->make_runner(i, [this](StepReport report) { take(std::move(report)); }));
  }

  [[nodiscard]] static EngineConfig config_of(const std::filesystem::path& folder, const GroupOptions& options) {
    EngineConfig config;
    config.model = folder;
    config.strategy = options.strategy;
    config.ranks = options.ranks;
    config.threads = 1;
    config.compute = options.compute;
    config.chunk_tokens = options.chunk_tokens;
    config.step_tokens = 1024;
    config.kv_cache_bytes = uint64_t{1} << 20;
    return config;
  }

  [[nodiscard]] const ModelShape& shape() const { return files_.shape(); }
  [[nodiscard]] LockstepGroup& group() { return *group_; }
  [[nodiscard]] size_t runners() const { return runners_.size(); }
  [[nodiscard]] const GroupLayout& layout() const { return setup_.group->layout; }

  /// Starts one step on each of the first runners, and gives the reports in their order.
  std::vector<StepReport> run_steps(std::vector<ForwardStep> steps) {
    const size_t count = steps.size();
    for (size_t i = 0; i < count; ++i) runners_[i]->start({.id = i, .step = std::move(steps[i])});
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reports_.size() == count; });
    std::vector<StepReport> reports(count);
    for (StepReport& report : reports_) reports[report.id] = std::move(report);
    reports_.clear();
    return reports;
  }

  /// One step of whole sequences, dealt out to the runners in turn. Logits of the whole vocabulary, in their order.
  std::vector<LastLogits> run(std::span<const std::vector<int32_t>> sequences) {
    std::vector<ForwardStep> steps(std::min(runners_.size(), sequences.size()));
    for (ForwardStep& step : steps) step.candidate_offsets.push_back(0);
    for (size_t i = 0; i < sequences.size(); ++i) add_sequence(steps[i % steps.size()], sequences[i], 0, {});
    const std::vector<StepReport> reports = run_steps(std::move(steps));
    std::vector<LastLogits> logits;
    for (size_t i = 0; i < sequences.size(); ++i)
      logits.push_back(logits_of(reports[i % reports.size()], i / reports.size()));
    return logits;
  }

  /// Appends the tokens of `ids` from `begin` on.
  void add_sequence(ForwardStep& step, std::span<const int32_t> ids, int32_t begin, std::vector<KvRun> prefix) const {
    const auto length = static_cast<int32_t>(ids.size());
    step.sequences.push_back({static_cast<int64_t>(step.ids.size()), length - begin, std::move(prefix)});
    for (int32_t p = begin; p < length; ++p) {
      step.ids.push_back(ids[static_cast<size_t>(p)]);
      step.positions.push_back(p);
    }
    step.head_rows.push_back(static_cast<int64_t>(step.ids.size()) - 1);
    for (int32_t c = 0; c < shape().vocabulary; ++c) step.candidates.push_back(c);
    step.candidate_offsets.push_back(static_cast<int64_t>(step.candidates.size()));
  }

  [[nodiscard]] LastLogits logits_of(const StepReport& report, size_t head) const {
    if (report.failure) std::rethrow_exception(report.failure);
    const auto first =
        report.result.logits.begin() + static_cast<std::ptrdiff_t>(head) * std::ptrdiff_t{shape().vocabulary};
    return {{first, first + shape().vocabulary}, report.result.log_sum_exp[head]};
  }

 private:
  void take(StepReport report) {
    {
      const std::lock_guard lock(mutex_);
      reports_.push_back(std::move(report));
    }
    changed_.notify_all();
  }

  SteadyClock clock_;
  ModelFiles files_;
  EngineSetup setup_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StepReport> reports_;  // guarded by mutex_
  std::unique_ptr<LockstepGroup> group_;
  std::vector<std::unique_ptr<StepRunner>> runners_;  // before the group goes
};

}  // namespace zp::test
