// The scheduling thread: takes requests in, fills steps for the ranks, and hands out their results.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "zeroprefill/engine.h"
#include "zp/base/bounded_queue.h"
#include "zp/base/clock.h"
#include "zp/engine/intake.h"
#include "zp/engine/rank.h"
#include "zp/engine/route_counter.h"
#include "zp/schedule/load_controller.h"
#include "zp/schedule/router.h"

namespace zp {

/// Owners: the scheduling thread owns the Router, every request from submit to outcome, and every step; ranks own
/// their devices. Traffic: callers and ranks -> commands_ -> scheduling thread -> each rank's queue.
/// Invariant: a request that submit() took is in requests_ (or on its way there) until its callback has been called.
class Dispatcher final {
 public:
  /// Makes one rank, which calls `report` once a step.
  using MakeRank = std::function<std::unique_ptr<StepRunner>(int32_t rank, StepRunner::Report report)>;

  struct Options {
    RankFailure rank_failure = RankFailure::kOthersGoOn;
    RouteCounter* routes = nullptr;            ///< told of the tokens of each step; or null
    uint64_t pending_bytes_max = UINT64_MAX;   ///< no more requests are taken while this much is unanswered
    std::string policy = "prefix-saturation";  ///< one of policy_names()
    LoadControllerSpec load{};                 ///< all but what is measured of the first rank
  };

  /// Makes as many ranks as `config` has; blocks while they load. `clock` outlives it.
  Dispatcher(const SchedulerConfig& config, const ModelShape& shape, const Clock& clock, const MakeRank& make_rank,
             const Options& options);
  /// Fails what is unanswered with kCancelled, and waits for the steps that run.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Any thread. Blocks while queue_max requests or pending_bytes_max are unanswered.
  uint64_t submit(CheckedRequest request, Callback callback);
  /// Never blocks, so that callbacks may cancel.
  void cancel(uint64_t id);
  void drain();
  [[nodiscard]] EngineStats stats() const;
  /// The first rank, with rates for later runs (LoadController::settled()); empty if it was not measured.
  [[nodiscard]] std::optional<MeasuredRank> settled() const;

 private:
  struct Pending {
    std::vector<int32_t> tokens;
    std::vector<int32_t> candidates;
    Callback callback;
    int32_t failed_steps = 0;  // steps that it was in and that failed

    [[nodiscard]] uint64_t bytes() const noexcept {
      return request_bytes(static_cast<int64_t>(tokens.size()), static_cast<int64_t>(candidates.size()));
    }
  };
  struct Submission {
    uint64_t id = 0;
    CheckedRequest request;
    Callback callback;
  };
  struct Wake {};  // something guarded by mutex_ wants to be looked at
  struct Stop {};
  using Command = std::variant<Submission, Wake, StepReport, Stop>;
  struct RunningStep {
    StepPlan plan;
    double target = 0;                       // that it was filled to
    bool staged = false;                     // another step of its rank was running
    std::vector<int64_t> candidate_offsets;  // [segments + 1]
  };

  void run();
  void stop();
  void handle(Submission& submission);
  void apply_cancellation(uint64_t id);
  [[nodiscard]] std::vector<uint64_t> take_cancelled();
  [[nodiscard]] bool any_cancelled() const;
  void handle(StepReport& report);
  void start_steps();
  void start_step(StepPlan plan);
  void note_waiting(int64_t since_ns);
  void count_planner_wait(size_t rank, int64_t now_ns);
  void count_step(const RunningStep& step, const StepReport& report);
  void follow_step(const RunningStep& step, const StepReport& report);
  void use_load();
  void retire(const StepPlan& plan, const Failure& failure);
  void answer_segments(const RunningStep& step, const ForwardResult& result);
  void finish(uint64_t id, Outcome outcome);
  void fail_all(const Failure& failure);

  static constexpr size_t kCommandsMax = 1024;

  const Clock& clock_;
  const int32_t max_pending_;
  const Options options_;
  BoundedQueue<Command> commands_{kCommandsMax};

  // The scheduling thread's own.
  Router router_;
  LoadRule load_;  // in use
  const int64_t step_tokens_max_;
  std::optional<LoadController> load_controller_;
  std::vector<std::optional<int64_t>> idle_since_ns_;     // [ranks] it has no step, and time is not counted yet
  std::vector<std::optional<int64_t>> waiting_since_ns_;  // [ranks] requests wait for it, or for any
  std::unordered_map<uint64_t, Pending> requests_;
  std::unordered_map<uint64_t, RunningStep> steps_;  // handed to ranks, not reported
  std::unordered_set<uint64_t> recalled_;            // handed to ranks, taken back, not reported
  int32_t ranks_alive_ = 0;
  std::optional<Failure> failure_;  // set: nothing runs any more, and this is why

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t unanswered_ = 0;               // guarded by mutex_
  uint64_t unanswered_bytes_ = 0;        // guarded by mutex_
  std::vector<uint64_t> cancelled_;      // guarded by mutex_; not yet looked at
  uint64_t next_id_ = 1;                 // guarded by mutex_
  bool closing_ = false;                 // guarded by mutex_
  EngineStats stats_;                    // guarded by mutex_
  std::optional<MeasuredRank> settled_;  // guarded by mutex_
  std::vector<int64_t> first_begin_ns_;  // [ranks] of the first step that was timed; 0: none yet; guarded by mutex_

  std::vector<std::unique_ptr<StepRunner>> ranks_;
  std::thread thread_;
};

}  // namespace zp
