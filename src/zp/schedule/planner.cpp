// The pass over the window.
#include "zp/schedule/planner.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "zp/base/check.h"
#include "zp/schedule/rank_fill.h"
#include "zp/schedule/step_targets.h"

namespace zp {
namespace {

/// The state of one pass.
class Pass final {
 public:
  explicit Pass(const PlanInput& input) : input_(input), resident_(input.ranks.size()) {
    const std::vector<double> targets = step_targets(input);
    for (size_t rank = 0; rank < input.ranks.size(); ++rank) {
      if (input.ranks[rank].open) fills_.emplace_back(static_cast<int32_t>(rank), targets[rank], input);
      all_open_ = all_open_ && (input.ranks[rank].open || input.ranks[rank].retired);
    }
    choices_.resize(fills_.size());
  }

  BatchPlan run() {
    // What the policy passes over, or nobody's even share has room for, gets what room is left in the end.
    std::vector<const QueuedRequest*> left;
    bool is_full = full();
    for (const QueuedRequest* request : ordered()) {
      if (is_full || !consider(*request)) left.push_back(request);
      is_full = is_full || full();
    }
    last_call_ = true;
    for (const QueuedRequest* request : left) {
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
      if (fill.below_target(true, beyond_share())) return false;
    return true;
  }

  // What is left once every rank has its even share. Ranks that get no step from this plan may still take theirs.
  [[nodiscard]] bool beyond_share() const { return last_call_ && all_open_; }

  // The window in the order in which the policy wants to look at it.
  std::vector<const QueuedRequest*> ordered() {
    std::vector<const QueuedRequest*> window(input_.window.begin(), input_.window.end());
    if (!input_.policy->reorders()) return window;
    std::vector<std::pair<double, const QueuedRequest*>> keyed;
    const auto urgency = [&](size_t i) {
      return std::tuple(i == 0 && input_.first_is_due, window[i]->request.priority,
                        window[i]->presses(input_.pressing_ns));
    };
    for (size_t begin = 0, end = 0; begin < window.size(); begin = end) {
      keyed.clear();
      for (end = begin; end < window.size() && urgency(end) == urgency(begin); ++end) {
        const RouteRequest route = route_request(*window[end], longest_match(*window[end]));
        keyed.emplace_back(input_.policy->order_key(route), window[end]);
      }
      std::ranges::stable_sort(keyed, {}, [](const auto& entry) { return entry.first; });
      for (size_t i = begin; i < end; ++i) window[i] = keyed[i - begin].second;
    }
    return window;
  }

  [[nodiscard]] RouteRequest route_request(const QueuedRequest& request, int32_t matched) const {
    return {.sequence = request.sequence - 1,
            .tokens = request.tokens(),
            .uncached_tokens = request.tokens() - int64_t{matched} * kBlockTokens,
            .waited_ns = input_.now_ns - request.request.arrival_ns};
  }

  // Before anything is placed: what an open rank has of a request.
  [[nodiscard]] int32_t longest_match(const QueuedRequest& request) {
    input_.index->match(request.path, resident_);
    int32_t longest = 0;
    for (const RankFill& fill : fills_) longest = std::max(longest, resident_[static_cast<size_t>(fill.rank())]);
    return std::min(longest, RankFill::reusable_max(request));
  }

  // The longest match on ranks that get no step from this plan, or cannot take the request into theirs.
  [[nodiscard]] int32_t matched_elsewhere() const {
    int32_t longest = 0;
    for (size_t rank = 0; rank < input_.ranks.size(); ++rank)
      if (!input_.ranks[rank].open && !input_.ranks[rank].retired) longest = std::max(longest, resident_[rank]);
    for (const RankChoice& choice : choices_)
      if (!choice.eligible) longest = std::max(longest, choice.matched_blocks);
    return longest;
  }

  [[nodiscard]] double load_of(AttentionSpan span) const { return input_.config->load.load(input_.cost->cost(span)); }

  /// A busy rank with a longer match than `best` gets to the request before it has waited for twice what is saved.
  [[nodiscard]] bool better_after_wait(const QueuedRequest& request, const RankChoice& best) const {
    const int32_t reusable = RankFill::reusable_max(request);
    for (size_t rank = 0; rank < input_.ranks.size(); ++rank) {
      const RankView& view = input_.ranks[rank];
      const int32_t blocks = std::min(resident_[rank], reusable);
      if (view.open || view.retired || blocks <= best.matched_blocks) continue;
      const int64_t prefix = int64_t{blocks} * kBlockTokens;
      const double saved = best.request_load - load_of({.prefix = prefix, .suffix = request.tokens() - prefix});
      // Who is late may be late for ever, and is waited for no longer than it has been late.
      if (view.load_ahead + view.load_overdue <= kWaitForSaving * saved) return true;
    }
    return false;
  }

  /// False if a rank could have taken it and the policy passed it over.
  bool consider(const QueuedRequest& request) {
    const bool pressing = request.presses(input_.pressing_ns);
    input_.index->match(request.path, resident_);
    CostAt cost;
    int32_t matched = 0;
    for (size_t i = 0; i < fills_.size(); ++i) {
      choices_[i] = choice(fills_[i], request, pressing, cost);
      matched = std::max(matched, choices_[i].matched_blocks);
    }
    RouteRequest route = route_request(request, matched);
    route.matched_elsewhere = matched_elsewhere();
    // Who presses, or was passed over too often, does not wait for a better place.
    const bool waits = !pressing && !(input_.first_is_due && &request == input_.window.front());
    route.last_call = last_call_ || !waits;
    const int32_t rank = input_.policy->choose(route, choices_);
    if (rank < 0 && std::ranges::any_of(choices_, &RankChoice::eligible)) return false;
    if (rank >= 0 && input_.rest && waits) {
      const auto chosen = std::ranges::find(choices_, rank, &RankChoice::rank);
      if (better_after_wait(request, *chosen)) return false;
    }
    for (size_t i = 0; i < fills_.size(); ++i) {
      if (rank < 0) {
        fills_[i].turned_away(pressing);
      } else if (choices_[i].rank == rank) {
        ZP_CHECK(choices_[i].eligible, "the policy chose rank {}, which has no room", rank);
        fills_[i].place(request, choices_[i].matched_blocks, resident_[static_cast<size_t>(rank)]);
      }
    }
    return true;
  }

  /// What a request costs with so many blocks reused. Most ranks have equally many, so it is computed once for them.
  struct CostAt {
    int32_t blocks = -1;
    double load = 0;
  };

  [[nodiscard]] RankChoice choice(const RankFill& fill, const QueuedRequest& request, bool pressing,
                                  CostAt& cost) const {
    const auto rank = static_cast<size_t>(fill.rank());
    const RankView& view = input_.ranks[rank];
    const int32_t blocks = fill.reusable(request, resident_[rank]);
    const AttentionSpan span{.prefix = int64_t{blocks} * kBlockTokens,
                             .suffix = request.tokens() - int64_t{blocks} * kBlockTokens};
    if (cost.blocks != blocks) cost = {.blocks = blocks, .load = load_of(span)};
    const bool wanted =
        fill.below_target(pressing, beyond_share()) ||
        (blocks > 0 && !pressing && fill.worth_joining(load_of({.prefix = 0, .suffix = request.tokens()}) - cost.load));
    return {.rank = fill.rank(),
            .eligible = wanted && fill.fits(span.suffix),
            .load = fill.load(),
            .load_unfinished = view.load_unfinished + fill.load(),
            .request_load = cost.load,
            .matched_blocks = blocks,
            .waiting = view.staged_requests + fill.requests(),
            .running = view.running_requests,
            .tokens = view.tokens_unfinished + fill.sequence_tokens()};
  }

  const PlanInput& input_;
  std::vector<RankFill> fills_;
  std::vector<RankChoice> choices_;
  bool last_call_ = false;
  bool all_open_ = true;           ///< all ranks get a step from this plan, but for the retired
  std::vector<int32_t> resident_;  ///< [ranks] first blocks of the request that the rank has
};

}  // namespace

BatchPlan plan_batch(const PlanInput& input) { return Pass(input).run(); }

}  // namespace zp
