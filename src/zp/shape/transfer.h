// How experts are spread over ranks and host, in numbers, and how long a layer's experts take to arrive: t_EP.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "zp/shape/model_shape.h"

namespace zp {

/// Where the experts are. The engine's placement (expert/placement.h) follows the same rule with real experts.
enum class ExpertSpreading : uint8_t {
  kResident,  ///< all on every rank: nothing moves
  kGathered,  ///< each on one rank
  kHost,      ///< one rank, the experts that it has no room for in host memory
  kHybrid,    ///< each on one rank as far as memory goes, the others in host memory, streamed in shares
};
/// "resident".
[[nodiscard]] std::string_view to_string(ExpertSpreading spreading) noexcept;

struct SpreadSpec {
  int32_t ranks = 1;
  int64_t expert_bytes = 0;     ///< of one expert
  uint64_t rank_bytes = 0;      ///< what a rank can hold of experts, when some must move: slots are not of it
  uint64_t resident_bytes = 0;  ///< what it could hold if none moved; 0: some are to move
};

/// Experts by place. Every rank holds the first MoE layer whole; what else fits lies evenly over the other layers.
struct ExpertSpread {
  ExpertSpreading spreading = ExpertSpreading::kResident;
  int32_t ranks = 1;
  int32_t experts = 0;  ///< of a layer
  int64_t expert_bytes = 0;
  int64_t rank_experts = 0;              ///< held by a rank, the most that any does
  int64_t host_experts = 0;              ///< in host memory, all layers
  std::vector<int32_t> remote{};         ///< [layers] experts that a rank must bring in
  std::vector<int32_t> host_by_layer{};  ///< [layers] of these, how many come from host memory, for all ranks together

  [[nodiscard]] uint64_t rank_bytes() const noexcept { return static_cast<uint64_t>(rank_experts * expert_bytes); }
  [[nodiscard]] uint64_t host_bytes() const noexcept { return static_cast<uint64_t>(host_experts * expert_bytes); }
  [[nodiscard]] int32_t streamed_layers() const noexcept;
};

/// Resident if that fits into resident_bytes or there is no MoE layer but the first, else as much as possible in ranks
/// and the rest in host memory. Requires that rank_bytes hold one layer.
[[nodiscard]] ExpertSpread spread_experts(const ModelShape& shape, const SpreadSpec& spec);

/// One direction's bytes a second, of each rank.
struct LinkRates {
  double peer = 0;
  double host = 0;
};

/// Seconds that a layer's experts take, by channel. Both run at once, so the slower one decides.
struct LayerTransfer {
  double peer_seconds = 0;
  double host_seconds = 0;  ///< amortised over the window
  [[nodiscard]] double seconds() const noexcept { return peer_seconds > host_seconds ? peer_seconds : host_seconds; }
};

/// t_EP of the slowest layer. A rank's host streamer runs up to `window` layers ahead, so it needs its bytes only on
/// the mean of any `window` layers that follow each other; a gather has one layer's time. Requires the rates that it
/// uses.
[[nodiscard]] LayerTransfer layer_transfer(const ExpertSpread& spread, const LinkRates& links, int32_t window);

}  // namespace zp
