// Ranks in virtual time: the real Router, requests that reach it, and the steps that it hands out.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "zp/schedule/router.h"
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
  int64_t end_ns = 0;     ///< of one that has started, and
  StepTime time{};        ///< likewise
};

struct FleetSpec {
  SchedulerConfig config;  ///< of all ranks
  ModelShape shape;
  StepModel step;
  std::string_view policy;  ///< one of policy_names()
};

/// Requests are made and hashed only shortly before they can be planned, so memory does not grow with the workload. One
/// thread.
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
  [[nodiscard]] int64_t evictions() const { return router_.evictions(); }

 private:
  void take_arrivals();
  void top_up();
  void take_steps(std::vector<StepPlan> plans);
  void start(int32_t rank);
  [[nodiscard]] std::optional<FleetStep> take_finished(int32_t rank);

  FleetSpec spec_;
  const Workload& workload_;
  VirtualClock clock_;
  Router router_;
  std::vector<std::deque<size_t>> backlogs_;  ///< [lanes] of the workload's requests: assigned, but not made yet
  std::vector<std::deque<FleetStep>> ranks_;  ///< [ranks] running, staged
  std::vector<RankTimeline> timelines_;       ///< [ranks]
  size_t arrived_ = 0;                        ///< requests so far
};

}  // namespace zp
