// Turns an EngineConfig and a checkpoint into sizes: what each rank holds, how steps are filled, how much memory it
// takes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "zeroprefill/engine.h"
#include "zp/engine/group_member.h"
#include "zp/engine/memory_plan.h"
#include "zp/engine/rank.h"
#include "zp/engine/step_mode_setup.h"
#include "zp/expert/placement.h"
#include "zp/expert/streamed.h"
#include "zp/model/weight_source.h"
#include "zp/schedule/calibration_file.h"
#include "zp/schedule/config.h"
#include "zp/schedule/load_controller.h"

namespace zp {

/// The most candidates that one request may have.
inline constexpr int64_t kCandidatesMax = 65536;

/// Everything decided before anything is allocated.
struct EngineSetup {
  std::vector<RankSpec> ranks;
  SchedulerConfig scheduler;
  Placement placement;
  size_t blob_bytes = 0;  ///< of one expert; 0 in a model without
  StreamingSpec streaming;
  int64_t hiding_tokens = 0;       ///< that a step should be able to hold (hiding_step_tokens()); 0: whatever it can
  uint64_t pending_bytes_max = 0;  ///< request_bytes() of unanswered requests at which no more are taken
  StepModeSetup step_modes;
  std::string policy;
  LoadControllerSpec load;               ///< all but what is measured
  std::optional<CalibrationFile> known;  ///< set: instead of measuring
  int32_t load_threads = 1;
  LoadLanesSpec load_lanes;  ///< where devices pack weights themselves
  bool trace = false;
  std::optional<GroupSpec> group;  ///< set: one synchronous group instead of `ranks` and what they need
  EngineMemory memory;
  std::string model_revision;  ///< tells this checkpoint's cached blocks from any other's
};

/// `config` has no problems of its own (validate()). Throws kInvalidArgument for what does not fit the model,
/// kOutOfMemory with the plan when it does not fit, and kUnsupported for a device or type that is not there.
[[nodiscard]] EngineSetup make_setup(const EngineConfig& config, const WeightSource& source);
/// The same without asking whether it fits.
[[nodiscard]] EngineSetup decide_setup(const EngineConfig& config, const WeightSource& source);
/// Calls `decide` with step_tokens and chunk_tokens set: those given, or the largest of the device's own for which its
/// plan fits, or the smallest of these if none does. Where these steps are too small to hide the transfer of experts,
/// also with max_step_tokens: hiding_tokens of them, halved until the plan fits and leaves experts where they are.
/// EngineMemory::note says what came of it.
[[nodiscard]] EngineSetup decide_sizes(const EngineConfig& config,
                                       const std::function<EngineSetup(const EngineConfig&)>& decide);

// What all setups share. Configurations have their step_tokens and chunk_tokens set.
[[nodiscard]] DType compute_dtype(const EngineConfig& config, const WeightSource& source, const Device& device);
[[nodiscard]] ForwardLimits forward_limits(const EngineConfig& config, int64_t max_request_tokens);
[[nodiscard]] OpsSpec ops_spec(const EngineConfig& config, const ModelShape& shape, DType compute,
                               const ForwardLimits& limits);
/// Throws kInvalidArgument for a longest context, or a largest step, that the device's operations do not take.
void require_token_limits(const ForwardLimits& limits, int64_t max_request_tokens, const OpsTokenLimits& most);
/// Everything but the pools. Throws kInvalidArgument for a context that the model was not made for.
[[nodiscard]] SchedulerConfig scheduler_config(const EngineConfig& config, const ModelShape& shape);
/// Decides about lanes, and adds what loading takes and gives back to a plan that has everything else. On a device it
/// is gone before there are activations, so only what exceeds them counts.
void plan_loading(const EngineConfig& config, const WeightSource& source, const Device& device, EngineSetup& setup);
/// In a synchronous group ranks need one another, in hybrid mode they bring experts in for one another, and a GPU's
/// failure leaves the process without a working driver.
[[nodiscard]] RankFailure rank_failure(const EngineSetup& setup);

/// "cpu", "cuda" or "cuda:N". Throws kInvalidArgument, naming the text.
[[nodiscard]] DeviceSpec parse_device(const std::string& text);

}  // namespace zp
