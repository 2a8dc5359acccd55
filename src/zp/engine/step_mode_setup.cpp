// Modes by placement and memory.
#include "zp/engine/step_mode_setup.h"

#include <algorithm>

#include "zp/base/error.h"

namespace zp {
namespace {

// A step of more tokens has enough to compute to gather all, and its rows would take more room than they are worth.
constexpr int64_t kSendTokensMax = 1024;
constexpr int64_t kJobRowsMax = 1024;

std::optional<StepMode> fixed_mode(BelowThreshold below) {
  switch (below) {
    case BelowThreshold::kAuto: return std::nullopt;
    case BelowThreshold::kGatherAll: return StepMode::kGatherAll;
    case BelowThreshold::kFetchRouted: return StepMode::kFetchRouted;
    case BelowThreshold::kSendActivations: return StepMode::kSendActivations;
  }
  return std::nullopt;
}

std::string_view name_of(Placing placing) {
  switch (placing) {
    case Placing::kResident: return "resident on every rank";
    case Placing::kGathered: return "on one rank each";
    case Placing::kHost: return "in host memory";
    case Placing::kHybrid: return "on ranks and in host memory";
    case Placing::kAuto: break;
  }
  return "";
}

}  // namespace

StepModeSetup decide_step_modes(const EngineConfig& config, const ModelShape& shape, const StepModeRoom& room) {
  const Placing placing = room.placement.placing();
  const bool streams = !room.placement.streamed_layers().empty();
  const bool fetches = streams && !(placing == Placing::kHybrid && config.ranks > 1);
  const bool sends = streams && placing == Placing::kGathered && config.ranks > 1;
  StepModeSetup setup{.fixed = fixed_mode(config.experts.below_threshold)};
  if ((setup.fixed == StepMode::kFetchRouted && !fetches) || (setup.fixed == StepMode::kSendActivations && !sends))
    fail(ErrorCode::kInvalidArgument, "experts.below_threshold is {}, which has no use for experts that are {}; {}",
         to_string(*setup.fixed), name_of(placing),
         sends || setup.fixed == StepMode::kFetchRouted
             ? "they must come from peers or from host memory, and with several ranks not from both"
             : "they must live on several ranks (gathered)");
  if (!sends || (setup.fixed && setup.fixed != StepMode::kSendActivations)) return setup;
  StepModeSetup sending = setup;
  sending.send_tokens = std::min(room.ops.limits.moe_tokens, kSendTokensMax);
  sending.job_rows = std::min(sending.send_tokens * shape.experts_per_token, kJobRowsMax);
  const bool fits = sending_bytes(shape, room.device, room.ops, sending) <= room.left_bytes;
  return fits || setup.fixed ? sending : setup;
}

ActivationSenderSpec sender_spec(const ModelShape& shape, const StepModeSetup& setup, int32_t rank) {
  return {.rank = rank,
          .tokens = setup.send_tokens,
          .experts_per_token = shape.experts_per_token,
          .size = {shape.hidden, shape.expert_intermediate}};
}

ExpertServerSpec server_spec(const ModelShape& shape, const StepModeSetup& setup, int32_t rank) {
  return {.rank = rank, .job_rows = setup.job_rows, .size = {shape.hidden, shape.expert_intermediate}};
}

OpsSpec server_ops_spec(const OpsSpec& ops, const StepModeSetup& setup) {
  OpsSpec own = ops;
  own.limits.moe_tokens = setup.job_rows;
  own.limits.experts_per_token = 1;
  own.limits.head_rows = 0;
  own.limits.vocabulary = 0;
  return own;
}

uint64_t sending_bytes(const ModelShape& shape, const Device& device, const OpsSpec& ops, const StepModeSetup& setup) {
  if (setup.send_tokens == 0) return 0;
  const DType activation = ops.activation.value_or(default_activation_dtype(device));
  return ActivationSender::buffer_bytes(sender_spec(shape, setup, 0), activation) +
         ExpertServer::buffer_bytes(server_spec(shape, setup, 0), activation) +
         ops_scratch_bytes(device, server_ops_spec(ops, setup));
}

}  // namespace zp
