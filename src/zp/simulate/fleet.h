// Ranks in virtual time: real Schedulers, requests that reach them, and the steps that they run.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "zp/schedule/scheduler.h"
#include "zp/simulate/step_model.h"
#include "zp/simulate/workload.h"

namespace zp {

/// A clock that is set.
class VirtualClock final : public Clock {
 public:
  [[nodiscard]] int64_t now_ns() const override { return now_; }
  /// Requires that time does not run backwards.
  void advance_to(int64_t ns);

 private:
  int64_t now_ = 0;
};

/// A step of a rank in virtual time.
struct FleetStep {
  StepPlan plan;
  int64_t start_ns = -1;  ///< -1: it waits for the one before
  int64_t end_ns = 0;
  StepTime time{};
};

struct FleetSpec {
  SchedulerConfig config;  ///< of all ranks
  ModelShape shape;
  StepModel step;
  std::string_view policy;  ///< one of policy_names()
};

/// Under a policy that assigns on arrival each rank has a Scheduler and a queue of its own, as data-parallel engines
/// have; otherwise one Scheduler has all ranks. Requests are made and hashed only shortly before they can be planned,
/// so memory does not grow with the workload. One thread.
class Fleet final {
 public:
  /// `workload` must outlive this. The config must be valid.
  Fleet(const FleetSpec& spec, const Workload& workload);

  /// What has arrived by now reaches the schedulers, and ranks get steps. Idle ones take whatever waits; busy ones
  /// stage full steps only, as the engine does.
  void plan();
  /// When something happens next: a step ends or a request arrives. Nothing: all is done.
  [[nodiscard]] std::optional<int64_t> next_event_ns() const;
  /// Lets time pass to then. Steps that end are handed to `use(const FleetStep&)`, rank by rank.
  template <typename Use>
  void advance_to(int64_t ns, Use&& use) {
    clock_.advance_to(ns);
    for (int32_t rank = 0; rank < ranks(); ++rank)
      while (const std::optional<FleetStep> step = take_finished(rank)) use(*step);
  }

  [[nodiscard]] int64_t now_ns() const noexcept { return clock_.now_ns(); }
  [[nodiscard]] int32_t ranks() const noexcept { return static_cast<int32_t>(ranks_.size()); }
  [[nodiscard]] int64_t evictions() const;

 private:
  /// A scheduler and the requests that are its own but were not given to it yet.
  struct Lane {
    std::unique_ptr<Scheduler> scheduler;
    std::deque<size_t> backlog{};  ///< of the workload's requests, in order
    int64_t queued = 0;            ///< waiting in the scheduler
  };
  struct Rank {
    std::deque<FleetStep> steps;  ///< running, staged
    int64_t waiting = 0;          ///< requests assigned on arrival that do not run
    int64_t running = 0;
    int64_t tokens = 0;  ///< of both
  };

  /// Up to so many ranks get their steps one after another, as the engine gives them; more would take too long.
  static constexpr int32_t kPlannedAlone = 64;

  [[nodiscard]] Lane& lane_of(int32_t rank) { return lanes_[lanes_.size() == 1 ? 0 : static_cast<size_t>(rank)]; }
  [[nodiscard]] int32_t rank_in_lane(int32_t rank) const { return lanes_.size() == 1 ? rank : 0; }
  void take_arrivals();
  [[nodiscard]] size_t lane_for(size_t request);
  void top_up(Lane& lane);
  void give_steps(size_t steps);
  [[nodiscard]] static StepFill fill_for(const Rank& rank);
  void take_step(int32_t rank, StepPlan plan);
  void start(Rank& rank);
  [[nodiscard]] std::optional<FleetStep> take_finished(int32_t rank);

  FleetSpec spec_;
  const Workload& workload_;
  std::unique_ptr<const RoutePolicy> policy_;  ///< for assignment on arrival
  VirtualClock clock_;
  std::vector<Lane> lanes_;
  std::vector<Rank> ranks_;
  size_t arrived_ = 0;  ///< requests so far
};

}  // namespace zp
