// What a model takes on given hardware, and what can be expected of it: the arithmetic behind `zeroprefill plan`. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zp/plan/strategies.h"
#include "zp/schedule/load_controller.h"
#include "zp/schedule/saturation.h"
#include "zp/shape/hardware_profile.h"
#include "zp/shape/model_shape.h"
#include "zp/shape/transfer.h"

namespace zp {

/// What experts are stored and multiplied in. Everything else is bf16.
enum class ExpertType : uint8_t {
  kBf16,
  kFp8,  ///< with a scale for each 128 x 128 block, below 0.1 % of the bytes, which is left out here
};

/// The most that PlanSpec::step_tokens can be.
inline constexpr int64_t kPlannedStepTokensMax = int64_t{1} << 30;

/// "bf16", "fp8".
[[nodiscard]] std::string_view to_string(ExpertType type) noexcept;

struct PlanSpec {
  ModelShape shape{};
  HardwareProfile hardware{};
  int32_t gpus = 1;
  ExpertType expert_type = ExpertType::kBf16;
  std::optional<ExpertSpreading> experts{};  ///< where they are to live, as `run --experts` has it; unset: on every
                                             ///< device if they fit, else on one each as far as memory goes
  std::optional<uint64_t>
      host_bytes{};                    ///< pinned host memory that may be used; unset: not known, so it is only stated
  std::optional<uint64_t> kv_bytes{};  ///< of a rank, for kept keys and values; unset: 65,536 tokens, at most half of
                                       ///< what is left and at most 16 GiB
  int64_t context_tokens = 4096;       ///< typical length of a request
  std::optional<int64_t> step_tokens{};  ///< steps are filled to no less; unset: as an engine on a GPU does, which is
                                         ///< kGpuStepTokens, halved until they fit
  int64_t chunk_tokens = 8192;           ///< everything but attention works on this many tokens at a time
  int32_t slots = 2;                     ///< layers whose remote experts a rank has room for
  int32_t window = 4;                    ///< layers that a rank's host streamer may be ahead
  double gamma = 1.2;                    ///< in [1, kGammaMax], as an engine has it
  double step_seconds = 0;               ///< of a step besides its layers
  ThresholdRate rate = ThresholdRate::kAchieved;
};

/// All contradictions found; empty when there are none.
[[nodiscard]] std::vector<std::string> validate(const PlanSpec& spec);

/// Rates and links as an engine measured them take the place of the profile's; links that it did not measure stay.
void use_measured(const MeasuredRank& measured, PlanSpec& spec);

/// Consumers: whatever is no expert, and kept keys and values.
inline constexpr std::string_view kReplicatedItem = "replicated weights";
inline constexpr std::string_view kKeptItem = "kept keys and values";

struct PlanItem {
  std::string_view consumer;
  uint64_t bytes = 0;
};

/// What the devices can be expected to do, step after step at the target.
struct PlanPrediction {
  double layer_seconds = 0;      ///< compute of one layer, mean over the layers
  double step_seconds = 0;       ///< all layers, and what is exposed
  double exposed_seconds = 0;    ///< of a step
  double tokens_per_second = 0;  ///< all devices, prompts of context_tokens without a shared prefix
  std::string_view bound;        ///< "expert products", "attention", "dense products", "peer link", "host link"
  double bound_share = 0;        ///< of the layer's time that the bound takes
};

struct CapacityPlan {
  std::vector<PlanItem> rank;  ///< memory of each device, by consumer
  uint64_t rank_limit = 0;
  std::vector<PlanItem> host;  ///< pinned host memory, for all devices
  std::string problem;         ///< why AsyncEP cannot run like this; empty if it can. Then what follows is not valid.
  int64_t expert_element_bytes = 2;
  OperationRates rates;
  int64_t step_tokens = 0;  ///< that steps are filled to at least: PlanSpec's, or what it came to
  ExpertSpread spread;      ///< of a host that each device reads alone: as of one device
  LayerTransfer transfer;   ///< t_EP
  Saturation saturation;
  PlanPrediction prediction;
  StrategyTraffic traffic;      ///< AsyncEP's, weights: moved_bytes a layer by the peer link, hidden behind compute
  double host_layer_bytes = 0;  ///< a layer by each host link, on the mean of the window
  std::vector<StrategyReport> others;

  [[nodiscard]] uint64_t rank_bytes() const noexcept;
  [[nodiscard]] uint64_t host_bytes() const noexcept;
};

/// Requires a valid spec.
[[nodiscard]] CapacityPlan make_capacity_plan(const PlanSpec& spec);

}  // namespace zp
