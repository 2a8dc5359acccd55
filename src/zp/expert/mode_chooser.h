// Chooses each step's mode, and learns from the steps that have run.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "zp/expert/mode_cost.h"
#include "zp/expert/step_mode.h"

namespace zp {

/// Takes the mode whose predicted time is least. A prediction is corrected by how long steps of that mode, and of about
/// as many tokens, took in comparison: by exponential averages in which no single step counts much. A mode that has not
/// been tried counts as predicted; predictions leave out what makes modes slower, so one that looks best is tried, and
/// found out. What was learnt of a mode fades while others run, so that it is tried again some time. Another mode than
/// the last is taken only if it saves 2 %, since the first step after a change has an empty ring. Owned by the rank's
/// thread.
class ModeChooser final {
 public:
  explicit ModeChooser(ModeCost cost) : cost_(std::move(cost)) {}

  /// Modes that a step may run in; kGatherAll is always one.
  using Available = std::array<bool, kStepModes>;
  [[nodiscard]] StepMode choose(const StepLoad& load, const Available& available) const;

  /// A step that has run.
  struct Observation {
    StepLoad load;
    StepMode mode = StepMode::kGatherAll;
    double seconds = 0;
    double exposed_seconds = 0;  ///< of these, compute stood still for experts
    int64_t routed_layers = 0;   ///< layers that were fetched by routing
    int64_t routed_experts = 0;  ///< experts that came for them
  };
  void observe(const Observation& seen);
  /// Only what it says about routing.
  void observe_routing(const Observation& seen);

  [[nodiscard]] double predicted_seconds(StepMode mode, const StepLoad& load) const;

 private:
  static constexpr size_t kBuckets = 24;  // of token counts, by powers of two
  [[nodiscard]] static size_t bucket_of(int64_t tokens);
  [[nodiscard]] double uncorrected_seconds(StepMode mode, const StepLoad& load) const;

  ModeCost cost_;
  std::optional<StepMode> last_;
  std::array<double, kBuckets> compute_ = filled(1);
  double routed_ = 1;
  std::array<std::array<double, kBuckets>, kStepModes> modes_ = {filled(1), filled(1), filled(1)};

  static constexpr std::array<double, kBuckets> filled(double value) {
    std::array<double, kBuckets> array{};
    array.fill(value);
    return array;
  }
};

}  // namespace zp
