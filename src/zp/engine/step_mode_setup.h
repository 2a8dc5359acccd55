// Decides how steps may get tokens and remote experts together, and the memory it takes to send activations.
#pragma once

#include <cstdint>
#include <optional>

#include "zeroprefill/engine.h"
#include "zp/device/device.h"
#include "zp/engine/memory_plan.h"
#include "zp/expert/activation_sender.h"
#include "zp/expert/expert_server.h"
#include "zp/expert/placement.h"
#include "zp/expert/step_mode.h"
#include "zp/ops/factory.h"
#include "zp/shape/model_shape.h"

namespace zp {

struct StepModeSetup {
  std::optional<StepMode> fixed;  ///< unset: chosen step by step
  int64_t send_tokens = 0;        ///< the most of a step that sends activations; 0: none does
  int64_t job_rows = 0;           ///< see ExpertServerSpec
};

/// What the decision depends on.
struct StepModeRoom {
  const Placement& placement;
  const Device& device;
  const OpsSpec& ops;       ///< of the ranks
  uint64_t left_bytes = 0;  ///< of a rank's memory
};

/// Activations are sent only if experts live on several ranks and nowhere else. Unless asked for, they are not if there
/// is no room. Throws kInvalidArgument for a fixed mode that experts, as they are placed, leave no use for.
[[nodiscard]] StepModeSetup decide_step_modes(const EngineConfig& config, const ModelShape& shape,
                                              const StepModeRoom& room);

[[nodiscard]] ActivationSenderSpec sender_spec(const ModelShape& shape, const StepModeSetup& setup, int32_t rank);
[[nodiscard]] ExpertServerSpec server_spec(const ModelShape& shape, const StepModeSetup& setup, int32_t rank);
/// The operations of a server, on a rank whose own are `ops`.
[[nodiscard]] OpsSpec server_ops_spec(const OpsSpec& ops, const StepModeSetup& setup);
/// What a sender, a server and the server's operations take of a rank.
[[nodiscard]] uint64_t sending_bytes(const ModelShape& shape, const Device& device, const OpsSpec& ops,
                                     const StepModeSetup& setup);

}  // namespace zp
