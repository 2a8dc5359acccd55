// The synchronous baselines behind the engine: P ranks that make every step together.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "zeroprefill/engine.h"
#include "zp/base/clock.h"
#include "zp/base/thread_pool.h"
#include "zp/engine/group_member.h"
#include "zp/engine/rank.h"

namespace zp {

/// With DP attention the scheduler plans for each rank by itself, since each has its own sequences and kept keys and
/// values, and the group has as many runners; a group step is one step of every rank, and ranks that have none take
/// part with no tokens, as in other systems. With TP attention and in pipelines the ranks are one runner.
///
/// Owners: runners are called by the scheduling thread; the group's thread takes their steps, hands them to the members
/// (each on a thread of the pool) and reports. Once a member has failed, every step is reported with that failure.
class LockstepGroup final {
 public:
  /// Loads the model on all ranks; blocks. Throws kInvalidArgument for a layout that the model refuses. `files` and
  /// `clock` outlive it.
  LockstepGroup(const GroupSpec& spec, const WeightSource& source, const Clock& clock);
  /// After all runners.
  ~LockstepGroup();
  LockstepGroup(const LockstepGroup&) = delete;
  LockstepGroup& operator=(const LockstepGroup&) = delete;

  /// How many runners the group has: as many as the scheduler plans ranks.
  [[nodiscard]] static int32_t runner_count(const GroupLayout& layout) {
    return layout.attention_is_dp() ? layout.ranks : 1;
  }
  /// Runner `index`, made once each.
  [[nodiscard]] std::unique_ptr<StepRunner> make_runner(int32_t index, StepRunner::Report report);

  /// The rank's device is lost: the running step and every later one fail with this cause. Any thread.
  void abort(int32_t rank, const std::exception_ptr& cause) noexcept;
  /// What the collectives moved so far.
  [[nodiscard]] GroupStats stats() const;
  [[nodiscard]] const Collectives& collectives(int32_t rank) const {
    return members_.at(static_cast<size_t>(rank))->collectives();
  }

 private:
  class Runner;
  struct Inbox {
    StepRunner::Report report;
    std::deque<StepWork> waiting;
    bool running = false;
  };
  using Round = std::vector<std::optional<StepWork>>;  // [runners]

  void start(int32_t index, StepWork work);
  void detach(int32_t index);
  [[nodiscard]] StepRunner::Description description() const;
  void run();
  [[nodiscard]] std::optional<Round> next_round();
  [[nodiscard]] std::vector<ForwardResult> run_round(const Round& round);
  [[nodiscard]] std::vector<ForwardResult> run_own_steps(const Round& round);
  [[nodiscard]] ForwardResult run_shared_step(const ForwardStep& step);
  [[nodiscard]] ForwardResult run_pipeline(const ForwardStep& step);
  [[nodiscard]] std::vector<std::vector<ForwardResult>> run_members(const std::vector<GroupMember::Work>& work);

  static constexpr size_t kQueuedSteps = 2;

  const GroupLayout layout_;
  const int64_t chunk_tokens_;
  const Clock& clock_;
  std::vector<std::unique_ptr<GroupMember>> members_;
  ThreadPool pool_;  // a thread for each member: they wait for each other

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Inbox> inboxes_;  // [runners], guarded by mutex_
  bool stopping_ = false;       // guarded by mutex_
  std::thread thread_;
};

}  // namespace zp
