// Steps of one shape on ranks of a model, and what they took.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/driven_ranks.h"
#include "bench/model/timed_ops.h"

namespace zp::bench {

/// Requests of one length that make a step: "32x512".
struct StepShape {
  int64_t requests = 0;
  int64_t tokens = 0;  ///< of each

  [[nodiscard]] int64_t total() const noexcept { return requests * tokens; }
};

/// A step of random ids from the seed, the same for the same shape; one output row and two candidates a request.
[[nodiscard]] ForwardStep make_step(const StepShape& shape, int32_t vocabulary, uint64_t seed);

/// What one way to run one shape came to.
struct Measured {
  double seconds = 0;  ///< the median over steps and ranks, from a step's submission to its results on the host
  int32_t steps = 0;   ///< that were measured, of each rank
  double seconds_min = 0;
  double seconds_max = 0;
  double exposed_seconds = 0;            ///< the median
  StepMode mode = StepMode::kGatherAll;  ///< that the last step ran as
  uint64_t output_hash = 0;              ///< of the bits of all results of a step
  bool repeatable = true;                ///< all steps gave the same bits
};

/// Loads once; ranks are made anew for each way to get experts.
class BenchRanks final {
 public:
  /// `source` outlives it. Throws as make_setup() and RankGroup do.
  BenchRanks(const EngineConfig& config, const WeightSource& source);

  /// Steps get their experts so from now on.
  void use(StepMode mode);
  /// Runs the step on every rank at once, `warm_up` + `steps` times, each with the next one staged.
  [[nodiscard]] Measured run(const ForwardStep& step, int32_t warm_up, int32_t steps);
  /// One more step, on rank 0 alone, with its operations timed.
  [[nodiscard]] PassTotals profile(const ForwardStep& step);

  [[nodiscard]] const EngineSetup& setup() const noexcept { return ranks_.setup(); }
  [[nodiscard]] StepRunner::Description description() const { return ranks_.description(); }
  /// Of rank 0's device: what has been taken since before loading.
  [[nodiscard]] uint64_t device_bytes_used();
  [[nodiscard]] double load_seconds() const noexcept { return ranks_.load_seconds(); }

 private:
  DrivenRanks ranks_;
  std::vector<TimedOps*> timed_;  // [ranks], owned by the group of ranks_
};

}  // namespace zp::bench
