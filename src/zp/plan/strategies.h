// The ways to split a model over devices, side by side: what each needs, what it moves, and how fast it could be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zp/shape/model_shape.h"

namespace zp {

/// Bytes that a collective strategy moves. Letters are those of docs/notes/baselines.md, where both readings are
/// derived.
struct StrategyTraffic {
  /// Sent, and received, by a device in a layer; for PP+PP by a stage in the middle, in a whole pass.
  double moved_bytes = 0;
  /// Table 1 of the paper for the tokens with which it is exact: for DP+TP and the exchange of EP both directions
  /// together.
  double table_bytes = 0;
};

struct TrafficSpec {
  int32_t ranks = 1;
  int64_t rank_tokens = 0;    ///< n, of one device; the group has N = P n
  int64_t element_bytes = 2;  ///< b, of activations
};
/// "dp+dp", "dp+tp", "dp+ep", "tp+tp", "tp+ep", "pp+pp", "sp+tp" or "sp+ep"; aborts on anything else.
[[nodiscard]] StrategyTraffic strategy_traffic(const ModelShape& shape, std::string_view strategy,
                                               const TrafficSpec& spec);

struct StrategySpec {
  TrafficSpec traffic{};
  int64_t expert_element_bytes = 2;
  uint64_t limit_bytes = 0;   ///< of a device
  uint64_t other_bytes = 0;   ///< that a device needs besides weights: keys, values, activations, runtime
  double layer_seconds = 0;   ///< of rank_tokens tokens on one device
  double peer_bandwidth = 0;  ///< bytes/s
};

struct StrategyReport {
  std::string_view name;
  std::string impossible{};   ///< why it cannot run; empty if it can
  uint64_t weight_bytes = 0;  ///< of a device
  StrategyTraffic traffic{};
  double tokens_per_second = 0;  ///< of the group with perfect balance; 0 if it cannot run
};

/// The eight synchronous strategies of Table 1. Speed is an upper bound: layer time and transfer, one after the other,
/// without imbalance, bubbles or latency.
[[nodiscard]] std::vector<StrategyReport> compare_strategies(const ModelShape& shape, const StrategySpec& spec);

}  // namespace zp
