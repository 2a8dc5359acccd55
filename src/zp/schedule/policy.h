// The choice of a rank for a request.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace zp {

/// One rank as a policy sees it, for one request.
struct RankChoice {
  int32_t rank = 0;
  bool eligible = false;       ///< its next step is below target, and the request fits
  double load = 0;             ///< of the step that is being filled
  double load_unfinished = 0;  ///< of its running and staged steps and the one being filled
  double request_load = 0;     ///< what this request would add there
  int32_t matched_blocks = 0;  ///< committed, pending, or promised earlier in this plan
};

/// Pure: the same choices give the same answer. Thread-safe.
class RoutePolicy {
 public:
  virtual ~RoutePolicy() = default;
  /// A rank among the eligible ones, or -1 to pass the request over in this plan.
  [[nodiscard]] virtual int32_t choose(std::span<const RankChoice> ranks) const = 0;
};

/// Ours: the longest match; among equal matches, and when nothing matches, the least unfinished load, then the lowest
/// rank. A hot prefix spills to other ranks by the same rule, once its rank is no longer eligible.
class PrefixSaturationPolicy final : public RoutePolicy {
 public:
  [[nodiscard]] int32_t choose(std::span<const RankChoice> ranks) const override;
};

}  // namespace zp
