// Counts how evenly the experts of a random model are used.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "zeroprefill/engine.h"
#include "zp/model/weight_source.h"

namespace zp {

/// Where a token is routed is known before it runs (drawn_route()), so the host counts, and devices do not.
/// Thread-safe.
class RouteCounter final {
 public:
  /// `source` draws its routes, and outlives the counter.
  RouteCounter(const WeightSource& source, double asked_skew);

  /// Tokens that are given to a rank, with their positions.
  void add(std::span<const int32_t> tokens, std::span<const int32_t> positions);
  /// Goes through the tables of all layers, which the first call makes once more and keeps.
  [[nodiscard]] RouteStats stats() const;

 private:
  const WeightSource& source_;
  double asked_skew_;
  mutable std::mutex mutex_;
  std::vector<int64_t> rows_;                         // guarded by mutex_; [kRouteTableRows]: tokens that took this row
  mutable std::vector<std::vector<int32_t>> tables_;  // guarded by mutex_; [MoE layers], or empty
};

}  // namespace zp
