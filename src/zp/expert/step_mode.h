// How a step gets tokens and remote experts together, and what the choice depends on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zp {

/// All of them give the same bits.
enum class StepMode : uint8_t {
  kGatherAll,        ///< every remote expert comes, ahead of its layer; the host never waits
  kFetchRouted,      ///< the host waits for each layer's routing; then the experts come that tokens are routed to
  kSendActivations,  ///< likewise; then tokens go to the experts' owners, which return one row an expert
};
inline constexpr size_t kStepModes = 3;

/// For people: "gather-all".
[[nodiscard]] constexpr std::string_view to_string(StepMode mode) noexcept {
  switch (mode) {
    case StepMode::kGatherAll: return "gather-all";
    case StepMode::kFetchRouted: return "fetch-routed";
    case StepMode::kSendActivations: return "send-activations";
  }
  return "";
}

/// The work of a step, as far as its time depends on it.
struct StepLoad {
  int64_t tokens = 0;
  int64_t attention_pairs = 0;  ///< (query, key) pairs of a layer
  int64_t head_rows = 0;
};

}  // namespace zp
