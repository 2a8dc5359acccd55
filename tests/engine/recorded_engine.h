// An engine without tokenizer whose steps are noted: what each computed, when, and what it waited for.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "zp/base/clock.h"
#include "zp/engine/dispatcher.h"
#include "zp/engine/rank.h"
#include "zp/engine/rank_group.h"
#include "zp/engine/setup.h"
#include "zp/schedule/cost.h"

namespace zp::test {

struct RecordedStep {
  uint64_t id = 0;
  int32_t rank = 0;
  RequestCost cost{};
  int64_t requests = 0;
  double seconds = 0;
  double exposed_seconds = 0;
  int64_t ended_ns = 0;

  [[nodiscard]] int64_t began_ns() const { return ended_ns - static_cast<int64_t>(seconds * 1e9); }
};

class RecordedEngine final {
 public:
  /// `adjust` may change what make_setup() decided.
  explicit RecordedEngine(const EngineConfig& config, const std::function<void(EngineSetup&)>& adjust = {})
      : files_(config.model),
        setup_(adjusted(make_setup(config, files_), adjust)),
        group_(setup_, files_),
        cost_(files_.shape()),
        dispatcher_(std::make_unique<Dispatcher>(
            setup_.scheduler, files_.shape(), clock_,
            [this](int32_t rank, StepRunner::Report report) { return make_rank(rank, std::move(report)); },
            Dispatcher::Options{.policy = setup_.policy, .load = setup_.load})) {}

  [[nodiscard]] const ModelShape& shape() const { return files_.shape(); }
  [[nodiscard]] const EngineSetup& setup() const { return setup_; }
  [[nodiscard]] const Dispatcher& dispatcher() const { return *dispatcher_; }

  struct Run {
    int64_t begin_ns = 0;             ///< when all requests were there, and planning began
    std::vector<RecordedStep> steps;  ///< in order of their ends
  };
  /// Submits all requests before any of them is planned, gives slots `pause` to fill, and waits for the answers. At
  /// most 1,000 requests.
  Run run(std::span<const std::vector<int32_t>> requests, std::chrono::nanoseconds pause) {
    // The scheduling thread is held in the callback of a first request meanwhile.
    std::promise<void> held;
    std::promise<void> released;
    submit({1}, [&] {
      held.set_value();
      released.get_future().wait();
    });
    held.get_future().wait();
    for (const std::vector<int32_t>& tokens : requests) submit(tokens, [] {});
    {
      const std::lock_guard lock(mutex_);
      steps_.clear();
    }
    std::this_thread::sleep_for(pause);
    Run run{.begin_ns = clock_.now_ns(), .steps = {}};
    released.set_value();
    dispatcher_->drain();
    const std::lock_guard lock(mutex_);
    run.steps = steps_;
    return run;
  }

 private:
  /// Notes what passes through.
  class Recorder final : public StepRunner {
   public:
    Recorder(RecordedEngine& engine, int32_t rank) : engine_(engine), rank_(rank) {}
    void start(StepWork work) override {
      engine_.note_start(rank_, work);
      inner->start(std::move(work));
    }
    [[nodiscard]] Description description() const override { return inner->description(); }
    [[nodiscard]] std::optional<RankCalibration> calibration() const override { return inner->calibration(); }

    std::unique_ptr<StepRunner> inner;

   private:
    RecordedEngine& engine_;
    int32_t rank_;
  };

  static EngineSetup adjusted(EngineSetup setup, const std::function<void(EngineSetup&)>& adjust) {
    if (adjust) adjust(setup);
    return setup;
  }

  std::unique_ptr<StepRunner> make_rank(int32_t rank, StepRunner::Report report) {
    RankGroup::Loaded& loaded = group_.rank(rank);
    auto recorder = std::make_unique<Recorder>(*this, rank);
    recorder->inner = std::make_unique<Rank>(setup_.ranks[static_cast<size_t>(rank)],
                                             Rank::Parts{.device = *loaded.device,
                                                         .ops = *loaded.ops,
                                                         .shape = files_.shape(),
                                                         .weights = loaded.weights,
                                                         .experts = group_.make_experts(rank),
                                                         .spans = loaded.spans.get(),
                                                         .clock = clock_},
                                             [this, report = std::move(report)](StepReport done) {
                                               note_end(done);
                                               report(std::move(done));
                                             });
    return recorder;
  }

  void note_start(int32_t rank, const StepWork& work) {
    RecordedStep step{.id = work.id, .rank = rank, .requests = std::ssize(work.step.sequences)};
    for (const StepSequence& sequence : work.step.sequences) {
      int64_t prefix = 0;
      for (const KvRun& run : sequence.prefix) prefix += run.tokens;
      step.cost += cost_.cost({.prefix = prefix, .suffix = sequence.tokens});
    }
    const std::lock_guard lock(mutex_);
    started_.push_back(step);
  }

  void note_end(const StepReport& report) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(started_, report.id, &RecordedStep::id);
    RecordedStep step = *found;
    started_.erase(found);
    step.seconds = report.seconds;
    step.ended_ns = report.reported_ns;
    for (const LayerWait& wait : report.waits) step.exposed_seconds += static_cast<double>(wait.exposed_ns) * 1e-9;
    steps_.push_back(step);
  }

  void submit(const std::vector<int32_t>& tokens, const std::function<void()>& done) {
    CheckedRequest request;
    request.schedule.tokens = tokens;
    request.schedule.chain = BlockChain("", tokens);
    request.candidates = {1};
    (void)dispatcher_->submit(std::move(request), [done](uint64_t, const Outcome& outcome) {
      EXPECT_TRUE(std::holds_alternative<Answer>(outcome)) << std::get<Failure>(outcome).message;
      done();
    });
  }

  SteadyClock clock_;
  ModelFiles files_;
  EngineSetup setup_;
  RankGroup group_;
  CostModel cost_;
  std::mutex mutex_;
  std::vector<RecordedStep> started_;  // guarded by mutex_
  std::vector<RecordedStep> steps_;    // guarded by mutex_
  std::unique_ptr<Dispatcher> dispatcher_;
};

}  // namespace zp::test
