// The pass over the window.
#include "zp/schedule/planner.h"

#include "zp/base/check.h"
#include "zp/schedule/rank_fill.h"

namespace zp {
namespace {

/// The state of one pass.
class Pass final {
 public:
  explicit Pass(const PlanInput& input) : input_(input), resident_(input.ranks.size()) {
    for (size_t rank = 0; rank < input.ranks.size(); ++rank)
      if (input.ranks[rank].open) fills_.emplace_back(static_cast<int32_t>(rank), input);
    choices_.resize(fills_.size());
  }

  BatchPlan run() {
    for (const QueuedRequest* request : input_.window) {
      if (full()) break;
      consider(*request);
    }
    BatchPlan plan;
    for (RankFill& fill : fills_) plan.steps.push_back(fill.finish());
    return plan;
  }

 private:
  [[nodiscard]] bool full() const {
    for (const RankFill& fill : fills_)
      if (fill.below_target(true)) return false;
    return true;
  }

  void consider(const QueuedRequest& request) {
    const bool pressing = request.presses(input_.pressing_ns);
    input_.index->match(request.path, resident_);
    for (size_t i = 0; i < fills_.size(); ++i) choices_[i] = choice(fills_[i], request, pressing);
    const int32_t rank = input_.policy->choose(choices_);
    for (size_t i = 0; i < fills_.size(); ++i) {
      if (rank < 0) {
        fills_[i].turned_away(pressing);
      } else if (choices_[i].rank == rank) {
        ZP_CHECK(choices_[i].eligible, "the policy chose rank {}, which has no room", rank);
        fills_[i].place(request, choices_[i].matched_blocks, resident_[static_cast<size_t>(rank)]);
      }
    }
  }

  [[nodiscard]] RankChoice choice(const RankFill& fill, const QueuedRequest& request, bool pressing) const {
    const auto rank = static_cast<size_t>(fill.rank());
    const int32_t blocks = fill.reusable(request, resident_[rank]);
    const AttentionSpan span{.prefix = int64_t{blocks} * kBlockTokens,
                             .suffix = request.tokens() - int64_t{blocks} * kBlockTokens};
    return {.rank = fill.rank(),
            .eligible = fill.below_target(pressing) && fill.fits(span.suffix),
            .load = fill.load(),
            .load_unfinished = input_.ranks[rank].load_unfinished + fill.load(),
            .request_load = input_.config->load.load(input_.cost->cost(span)),
            .matched_blocks = blocks};
  }

  const PlanInput& input_;
  std::vector<RankFill> fills_;
  std::vector<RankChoice> choices_;
  std::vector<int32_t> resident_;  ///< [ranks] first blocks of the request that the rank has
};

}  // namespace

BatchPlan plan_batch(const PlanInput& input) { return Pass(input).run(); }

}  // namespace zp
