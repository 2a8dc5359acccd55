// Runs a workload through the scheduler in virtual time, and reports how well it was spread and reused. Deterministic.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "zp/simulate/fleet.h"

namespace zp {

struct SimulationSpec {
  ModelShape shape;
  StepModel step;
  std::string policy = "prefix-saturation";
  int32_t ranks = 1;
  int32_t pool_blocks = 0;    ///< KV blocks that each rank keeps
  double target_seconds = 0;  ///< predicted time of a layer that a step is filled to
  int64_t step_tokens_max = 0;
  int32_t look_ahead = 32'768;
};

/// All contradictions found; empty when there are none.
[[nodiscard]] std::vector<std::string> validate(const SimulationSpec& spec);

/// One step, for plots.
struct StepRecord {
  int32_t rank = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t exposed_ns = 0;
  int64_t tokens = 0;  ///< computed
};

struct RankReport {
  int64_t steps = 0;
  int64_t requests = 0;
  int64_t computed_tokens = 0;
  int64_t hit_tokens = 0;
  double compute_seconds = 0;
  double exposed_seconds = 0;
  double idle_seconds = 0;  ///< until the last rank is done
};

/// Of all requests, from arrival to the end of the request's step; where all arrive at once, until then since the
/// start. Percentiles are by nearest rank: p90 is the least latency that no fewer than 90 % of the requests stay
/// within.
struct LatencyReport {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

struct SimulationReport {
  int64_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t computed_tokens = 0;
  int64_t hit_tokens = 0;
  int64_t reusable_tokens = 0;  ///< what an unlimited cache for all would have hit
  int64_t evictions = 0;
  double makespan_seconds = 0;
  LatencyReport latency_seconds;
  std::vector<RankReport> ranks;
  std::array<int64_t, 5> filled_by{};  ///< steps by StopReason
  std::vector<StepRecord> steps;       ///< in order of their ends

  [[nodiscard]] double tokens_per_second() const noexcept;
  [[nodiscard]] double hit_rate() const noexcept;
  [[nodiscard]] double hit_rate_bound() const noexcept;
  /// The busiest rank's compute time over the mean: 1 is even.
  [[nodiscard]] double load_spread() const noexcept;
  /// Of all ranks' time until the end.
  [[nodiscard]] double exposed_share() const noexcept;
  [[nodiscard]] double idle_share() const noexcept;
};

/// Requires a valid spec and at least one request.
[[nodiscard]] SimulationReport simulate(const SimulationSpec& spec, const Workload& workload);

}  // namespace zp
