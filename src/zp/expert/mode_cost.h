// What a step costs in each mode, from the model's shape, where its experts live, and what was measured. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "zp/expert/placement.h"
#include "zp/expert/step_mode.h"
#include "zp/shape/model_shape.h"

namespace zp {

/// What was measured at start-up. Rates may be infinite.
struct Calibration {
  double link_bytes_per_second = 0;  ///< of the link that experts come over
  double copy_seconds = 0;           ///< before each copy's first byte
  double sync_seconds = 0;           ///< the host waits for the compute stream and goes on
  double step_seconds = 0;           ///< of a step, whatever its tokens
  double flops_per_second = 0;
};

/// What one rank's costs depend on besides. Bytes are those of the backend.
struct ModeCostSpec {
  int32_t rank = 0;
  int32_t slots = 2;
  uint64_t blob_bytes = 0;
  uint64_t slice_bytes = 0;
  uint64_t activation_bytes = 0;  ///< of an element of type A
  int64_t job_rows = 1;           ///< see ExpertServerSpec
};

/// Predicted seconds of a step when the next one follows at once. Predictions are of what has to be: what they leave
/// out makes a mode slower than predicted, which is found out by running it (ModeChooser). Immutable.
class ModeCost final {
 public:
  ModeCost(const ModelShape& shape, const Placement& placement, const ModeCostSpec& spec,
           const Calibration& calibration);

  /// What may be known of the steps at hand, as factors of what is predicted without.
  struct Corrections {
    double compute = 1;  ///< of the time that computing takes
    double routed = 1;   ///< of the number of different experts that tokens are routed to
  };
  [[nodiscard]] double seconds(StepMode mode, const StepLoad& load, const Corrections& corrections) const;

  /// Of these, computing alone, nothing waited for.
  [[nodiscard]] double compute_seconds(const StepLoad& load) const;
  /// Different experts among `experts` of a layer that `tokens` are routed to, if every choice is as likely as any
  /// other: experts * (1 - (1 - k / E)^tokens).
  [[nodiscard]] double expected_experts(double experts, int64_t tokens) const;
  /// Experts of a streamed layer that come from elsewhere, as a mean.
  [[nodiscard]] double remote_experts() const noexcept { return remote_experts_; }

 private:
  struct Layer {
    double outside_flops_per_token = 0;
    double expert_flops_per_token = 0;
    double remote_experts = 0;  // 0: not streamed, or all are here
    bool streamed = false;
  };
  struct LayerSeconds {
    double outside = 0;
    double experts = 0;
  };
  [[nodiscard]] LayerSeconds layer_seconds(const Layer& layer, const StepLoad& load, double factor) const;
  [[nodiscard]] double fetch_seconds(double experts) const;
  [[nodiscard]] double gather_all(const StepLoad& load, double factor) const;
  [[nodiscard]] double send_layer(const Layer& layer, const StepLoad& load, double expert_seconds) const;

  ModeCostSpec spec_;
  Calibration calibration_;
  int32_t ranks_;
  double experts_;            // E
  double experts_per_token_;  // k
  double hidden_;
  double attention_flops_per_pair_;
  double head_flops_per_row_;
  double remote_experts_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace zp
