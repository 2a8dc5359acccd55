// When a step is full: predicted layer time from the rates of operations, the saturation threshold T, and the target.
#pragma once

#include <cstdint>

#include "zp/schedule/cost.h"
#include "zp/shape/hardware_profile.h"

namespace zp {

/// What steps are filled to at least, unless somebody says otherwise. On a GPU, whose kernels want many tokens of each
/// expert, it is halved until memory suffices, down to that of a CPU. Engines and plans have both from here.
inline constexpr int64_t kGpuStepTokens = 32768;
inline constexpr int64_t kCpuStepTokens = 4096;

/// Predicted seconds of one layer: each kind of work at its own rate. Additive over requests. Requires positive rates.
[[nodiscard]] double layer_seconds(const RequestCost& cost, const OperationRates& rates);

/// Which rate F stands in T = t_EP x F x gamma.
enum class ThresholdRate : uint8_t {
  kAchieved,  ///< what the device reaches: then T is the work that takes gamma x t_EP
  kPeak,      ///< of the data sheet, as in the paper: asks for more work by 1 / utilisation
};

struct SaturationSpec {
  double transfer_seconds = 0;  ///< t_EP
  double gamma = 1.2;           ///< >= 1
  OperationRates rates{};
  double peak_rate = 0;  ///< FLOP/s; used by kPeak
  ThresholdRate rate = ThresholdRate::kAchieved;
  int64_t context_tokens = 4096;      ///< the length of request that T is said for in tokens
  int64_t efficient_step_tokens = 0;  ///< steps below this are slow for other reasons
};

/// An amount of one layer's work, in three units.
struct LayerWork {
  double flops = 0;
  double seconds = 0;  ///< at the achieved rates
  double tokens = 0;   ///< of requests of context_tokens
};

struct Saturation {
  double rate = 0;        ///< F, FLOP/s
  LayerWork threshold{};  ///< T
  LayerWork target{};     ///< max(T, the efficient step)
};

/// Requires a valid spec: t_EP >= 0, gamma >= 1, positive rates and context.
[[nodiscard]] Saturation saturation(const CostModel& cost, const SaturationSpec& spec);

/// Load in predicted seconds of a layer, whose experts take `transfer_seconds` to come. A step with a pressing deadline
/// takes nothing else along.
[[nodiscard]] LoadRule layer_time_load(const OperationRates& rates, double target_seconds, double transfer_seconds);

}  // namespace zp
