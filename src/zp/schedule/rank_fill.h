// One rank's step while a plan fills it. Used by planner.cpp alone.
#pragma once

#include <cstdint>
#include <span>

#include "zp/schedule/node_map.h"
#include "zp/schedule/planner.h"

namespace zp {

/// A request waits for a prefix, or joins those that compute it, rather than being computed without on a rank that has
/// nothing else to do, while that puts it behind no more than this many times the work that is saved.
inline constexpr double kWaitForSaving = 2;

/// Invariant: `fresh_` has exactly the blocks that the step's segments compute and the rank neither holds nor expects.
class RankFill final {
 public:
  /// The step is filled to a load of `target`.
  RankFill(int32_t rank, double target, const PlanInput& input) : input_(input), target_(target) { step_.rank = rank; }

  /// The most blocks of a request that can be reused: never the block of the last token.
  [[nodiscard]] static int32_t reusable_max(const QueuedRequest& request);
  /// The first blocks of a request that it would reuse here, when the rank has `resident` of them: those, then blocks
  /// that this step computes.
  [[nodiscard]] int32_t reusable(const QueuedRequest& request, int32_t resident) const;
  /// The step is below the target that applies to such a request: its own, or where even shares are no limit, the
  /// rule's if that is higher.
  [[nodiscard]] bool below_target(bool pressing, bool beyond_share) const;
  /// A request that saves so much here, load by load, belongs into this step though its even share is reached: the
  /// target is not, and what the step holds is no more than twice that.
  [[nodiscard]] bool worth_joining(double saved) const;
  /// So many more tokens would not exceed step_tokens_max, or are the first.
  [[nodiscard]] bool fits(int64_t tokens) const;
  /// Adds a request that reuses `reused` blocks, `resident` of which (at most) the rank has.
  void place(const QueuedRequest& request, int32_t reused, int32_t resident);
  /// Notes that a request which no rank took was turned away here.
  void turned_away(bool pressing);
  /// Chooses what to keep and says why filling ended; the step, for the plan.
  [[nodiscard]] PlannedStep finish();

  [[nodiscard]] int32_t rank() const noexcept { return step_.rank; }
  [[nodiscard]] double load() const noexcept { return step_.load; }
  [[nodiscard]] int64_t requests() const noexcept { return static_cast<int64_t>(step_.segments.size()); }
  /// Of the requests in the step, reused tokens too.
  [[nodiscard]] int64_t sequence_tokens() const noexcept { return sequence_tokens_; }

 private:
  /// A block that the step computes.
  struct Fresh {
    int64_t row = 0;
    int32_t segments = 1;  ///< whose sequences it is part of
    bool read = false;     ///< by a segment other than its maker
  };

  void count_wanted(PlannedSegment& segment);
  void choose_kept();
  [[nodiscard]] RoomCounts room() const;

  const PlanInput& input_;
  double target_;
  PlannedStep step_;
  NodeMap<Fresh> fresh_;
  int64_t sequence_tokens_ = 0;
  bool pressing_ = false;  ///< a request in the step has a pressing deadline
  bool away_for_room_ = false;
  bool away_for_deadline_ = false;
};

}  // namespace zp
