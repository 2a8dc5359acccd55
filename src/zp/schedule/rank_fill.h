// One rank's step while a plan fills it. Used by planner.cpp alone.
#pragma once

#include <cstdint>
#include <span>

#include "zp/schedule/node_map.h"
#include "zp/schedule/planner.h"
#include "zp/schedule/step_targets.h"

namespace zp {

/// A request joins those that compute its prefix, or while others arrive waits for a plan in which it may, rather than
/// being computed without, while that puts it behind no more than this many times the work that is saved.
inline constexpr double kWaitForSaving = 2;
/// A request waits for a busy rank that has its prefix, and for those that wait for that rank already, rather than
/// being computed without, for no longer than this many times the work that is saved. More than once, since the step
/// that makes a prefix has a request of its own, and others wait.
inline constexpr double kPatienceForSaving = 1.25;
/// In the last steps, a request goes to a rank that has its prefix, but no room for it in its even share, rather than
/// to one that makes the prefix once more, if it is done there no later than by this part of the work that is saved.
inline constexpr double kLaterForSaving = 0.1;

/// Invariant: `fresh_` has exactly the blocks that the step's segments compute, that the rank neither holds nor
/// expects, and that are in more than one waiting request (counting those in the step): nobody looks for others.
class RankFill final {
 public:
  RankFill(int32_t rank, StepTarget target, const PlanInput& input)
      : input_(input), target_(target.load), left_(target.left) {
    step_.rank = rank;
  }

  /// The most blocks of a request of so many tokens that can be reused: never the block of the last token, since an
  /// answer needs that token's hidden state, and only keys and values are kept.
  [[nodiscard]] static int32_t reusable_max(int64_t tokens) {
    return static_cast<int32_t>((tokens - 1) / kBlockTokens);
  }
  /// The first blocks of a request that it would reuse here, when the rank has `resident` of them: those, then blocks
  /// that this step computes.
  [[nodiscard]] int32_t reusable(const QueuedRequest& request, int32_t resident) const;
  /// The step is below the limit that applies to such a request: its own, or where even shares are no limit, the
  /// rule's if that is higher.
  [[nodiscard]] bool below_target(bool pressing, bool beyond_share) const;
  /// A step that has its share, and goes on for the little that is left besides, takes nothing much larger than that.
  [[nodiscard]] bool suits(double load) const;
  /// In the last steps: the even share has no room for half of a request of this load, which is long.
  [[nodiscard]] bool hardly_fits(double load) const;
  /// A request that saves so much here, load by load, belongs into this step though its even share is reached: the
  /// target is not, and what the step holds is no more than twice that.
  [[nodiscard]] bool worth_joining(double saved) const;
  /// What is left for the rank is no more than its last steps, and a request of this load has no room in its even
  /// share.
  [[nodiscard]] bool crowded(double load) const;
  /// There is room for such a request in the rank's even share, or the rank has nothing else.
  [[nodiscard]] bool has_share(double load) const {
    return step_.load + load <= target_ || (step_.segments.empty() && !closed());
  }
  /// The rank is closed(), but so many more tokens would fit into a step below the rule's target.
  [[nodiscard]] bool may_take_more(int64_t tokens) const;
  /// Little is left of all that waits: the step takes of it up to a load of `limit`, and what reuses blocks here as far
  /// as one more transfer hides that.
  void take_rest(double limit);
  [[nodiscard]] bool joins_rest(double load) const { return step_.load + load <= joining_limit_; }
  /// So many more tokens would not exceed step_tokens_max, or are the first.
  [[nodiscard]] bool fits(int64_t tokens) const;
  /// So many tokens fit at most.
  [[nodiscard]] int64_t room() const;
  /// A request in the step has a deadline that presses.
  [[nodiscard]] bool pressing() const noexcept { return pressing_; }
  /// Adds a request that reuses `reused` blocks, `resident` of which (at most) the rank has.
  void place(const QueuedRequest& request, int32_t reused, int32_t resident);
  /// Notes that a request which no rank took was turned away here.
  void turned_away(bool pressing);
  /// Chooses what to keep and says why filling ended; the step, for the plan.
  [[nodiscard]] PlannedStep finish();

  [[nodiscard]] int32_t rank() const noexcept { return step_.rank; }
  [[nodiscard]] double load() const noexcept { return step_.load; }
  /// The rank is busy and has its share: only what belongs here all the same is placed, as far as that makes a step.
  [[nodiscard]] bool closed() const noexcept { return target_ == 0; }
  [[nodiscard]] double left() const noexcept { return left_; }
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

  /// Below this load the step takes more. With what is left for the rank a step may be one that takes longer; without
  /// it that would be a step which takes a transfer.
  [[nodiscard]] double limit() const;
  /// What is left for the rank is no more than its last steps.
  [[nodiscard]] bool at_end() const { return left_ < PrefixSaturationPolicy::kEndSteps * input_.config->load.target; }
  void count_wanted(PlannedSegment& segment);
  void choose_kept();
  [[nodiscard]] RoomCounts pool_room() const;

  const PlanInput& input_;
  double target_;
  double left_;  ///< for the rank, of all that waits
  PlannedStep step_;
  NodeMap<Fresh> fresh_;
  int64_t sequence_tokens_ = 0;
  double rest_limit_ = 0;  ///< once it takes the rest, and
  double joining_limit_ = 0;
  bool pressing_ = false;  ///< a request in the step has a pressing deadline
  bool away_for_room_ = false;
  bool away_for_deadline_ = false;
};

}  // namespace zp
