// Where requests go under any policy: one Scheduler for all ranks, or one for each. The engine and the simulator both
// schedule through this.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "zp/base/clock.h"
#include "zp/schedule/policy.h"
#include "zp/schedule/scheduler.h"

namespace zp {

/// Under a policy that assigns on arrival each rank has a Scheduler and a queue of its own, a lane, as data-parallel
/// engines behind a load balancer have; otherwise one lane has all ranks. Step ids are unique over lanes. One thread
/// owns a Router; no call blocks.
class Router final {
 public:
  /// `config` must be valid, `policy` one of policy_names(); `clock` must outlive this.
  Router(const SchedulerConfig& config, const ModelShape& shape, const Clock& clock, std::string_view policy);

  [[nodiscard]] int32_t lanes() const noexcept { return static_cast<int32_t>(lanes_.size()); }
  [[nodiscard]] int32_t ranks() const noexcept { return static_cast<int32_t>(ranks_.size()); }

  /// A request of so many tokens arrives: the lane that it belongs to from now on. It counts as waiting there, and is
  /// to be submitted there. Requires a rank that is not retired.
  [[nodiscard]] int32_t assign(int64_t tokens);
  /// Hands over a request that was assigned to this lane; if it is refused, it is no longer assigned.
  SubmitResult submit(int32_t lane, ScheduleRequest request);
  /// Both at once.
  SubmitResult submit(ScheduleRequest request);
  CancelResult cancel(uint64_t request);

  /// Steps for the ranks that have none, from one plan a lane: whatever waits.
  [[nodiscard]] std::vector<StepPlan> steps_for_idle();
  /// Steps for the ranks that still have none though requests wait, which a plan for all would give to busy ranks:
  /// those that do not rather wait for these (see Scheduler).
  [[nodiscard]] std::vector<StepPlan> steps_for_rest();
  /// A rank has nothing to do although requests wait: time alone may change where they go.
  [[nodiscard]] bool rest_waits() const;
  /// Steps for the ranks that have one: only those that waiting for more would not fill further.
  [[nodiscard]] std::vector<StepPlan> steps_for_busy();

  /// As Scheduler::finish_step(), on any rank.
  std::vector<uint64_t> finish_step(uint64_t step, StepOutcome outcome);
  /// As Scheduler::retire_rank(). What waits in the rank's own lane is assigned to other ranks, if there is one left:
  /// it was accepted, so queue_max does not keep it out.
  std::vector<uint64_t> retire_rank(int32_t rank);

  /// Steps planned from now on are measured and filled by this rule.
  void set_load(const LoadRule& load);

  /// Steps that a rank has not finished.
  [[nodiscard]] int32_t unfinished_steps(int32_t rank) const { return static_cast<int32_t>(at(rank).steps.size()); }
  /// Requests that wait in a lane and are in no step, not counting those that were assigned but not submitted.
  [[nodiscard]] int32_t queued(int32_t lane) const { return lanes_.at(static_cast<size_t>(lane)).queued(); }
  /// Requests that wait for this rank, or for any.
  [[nodiscard]] int32_t queued_for(int32_t rank) const { return queued(lanes() == 1 ? 0 : rank); }
  /// Blocks, all ranks.
  [[nodiscard]] int64_t evictions() const;
  /// Aborts when an invariant does not hold. O(everything).
  void check_invariants() const;

 private:
  struct Lane {
    std::unique_ptr<Scheduler> scheduler;
    [[nodiscard]] int32_t queued() const { return scheduler->queued(); }
  };
  struct HeldStep {
    uint64_t id = 0;
    std::vector<uint64_t> requests{};
  };
  struct Rank {
    std::deque<HeldStep> steps{};  ///< running, staged
    int64_t requests = 0;          ///< assigned to it on arrival, not finished
    int64_t tokens = 0;            ///< of these, reused ones too
    bool retired = false;
  };
  /// A request from submit until it leaves.
  struct Held {
    int32_t lane = 0;
    int64_t tokens = 0;
    bool cancelled = false;  ///< leaves with its step
  };

  [[nodiscard]] const Rank& at(int32_t rank) const { return ranks_.at(static_cast<size_t>(rank)); }
  [[nodiscard]] Rank& at(int32_t rank) { return ranks_.at(static_cast<size_t>(rank)); }
  [[nodiscard]] Scheduler& scheduler_of(int32_t lane) { return *lanes_.at(static_cast<size_t>(lane)).scheduler; }
  [[nodiscard]] int32_t lane_of(int32_t rank) const noexcept { return lanes() == 1 ? 0 : rank; }
  [[nodiscard]] uint64_t outer_id(int32_t lane, uint64_t step) const noexcept {
    return step * static_cast<uint64_t>(lanes()) + static_cast<uint64_t>(lane);
  }
  [[nodiscard]] uint64_t inner_id(uint64_t step) const noexcept { return step / static_cast<uint64_t>(lanes()); }
  [[nodiscard]] std::vector<StepPlan> next_steps(size_t held, StepFill fill);
  void take_plan(int32_t lane, StepPlan& plan);
  [[nodiscard]] HeldStep remove_step(uint64_t step);
  void requeue(const HeldStep& step);
  void forget(uint64_t request);

  std::unique_ptr<const RoutePolicy> policy_;
  std::vector<Lane> lanes_;
  std::vector<Rank> ranks_;
  std::unordered_map<uint64_t, Held> requests_;
  std::unordered_map<uint64_t, int32_t> rank_of_step_;
  uint64_t arrived_ = 0;
};

}  // namespace zp
