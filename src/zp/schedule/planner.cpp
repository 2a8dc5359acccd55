// The pass over the window.
#include "zp/schedule/planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "zp/base/check.h"
#include "zp/base/math.h"
#include "zp/schedule/look_order.h"
#include "zp/schedule/rank_fill.h"
#include "zp/schedule/step_targets.h"

namespace zp {
namespace {

/// The state of one pass.
class Pass final {
 public:
  explicit Pass(const PlanInput& input)
      : input_(input), resident_(input.ranks.size()), waiting_for_(input.ranks.size()) {
    const std::vector<StepTarget> targets = step_targets(input);
    for (size_t rank = 0; rank < input.ranks.size(); ++rank) {
      const RankView& view = input.ranks[rank];
      if (view.retired) continue;
      left_max_ = std::max(left_max_, targets[rank].left);
      if (view.open) {
        fills_.emplace_back(static_cast<int32_t>(rank), targets[rank], input);
      } else {
        elsewhere_.push_back(rank);
        shared_elsewhere_ = shared_elsewhere_ || targets[rank].load != 0;
      }
    }
    choices_.resize(fills_.size());
  }

  BatchPlan run() {
    LookOrder order(input_, [this](const Waiting& waiting) {
      return input_.policy->order_key(route_request(waiting, waiting.match.blocks));
    });
    std::vector<const Waiting*> left;
    look_at(order, left);
    // What the policy passes over, or nobody's even share has room for, gets what room is left in the end.
    last_call_ = true;
    for (std::optional<double> rest = small_rest(order, left);;) {
      if (rest) take_rest(*rest);
      const int64_t placed = placed_;
      std::ranges::fill(waiting_for_, 0);
      look_again(left);
      look_at(order, left);
      if (placed_ == placed) break;
      // Prefixes that were made once more took of the shares, and may have left little besides.
      rest = small_rest(order, left);
      if (!rest) break;
    }
    BatchPlan plan;
    for (RankFill& fill : fills_) plan.steps.push_back(fill.finish());
    return plan;
  }

 private:
  enum class Outcome : uint8_t {
    kPlaced,
    kPassedOver,  ///< a rank could have taken it, but should not
    kTurnedAway,  ///< no rank has room for it
  };

  // Until ranks are full or all was looked at; adds to `left` what may get a place later. Once many in a row were
  // turned away, those that no rank can have room for any more are left out at once, in whatever order: tens of
  // thousands may wait where steps end for want of tokens.
  void look_at(LookOrder& order, std::vector<const Waiting*>& left) {
    constexpr int32_t kTurnedAwayFirst = 64;
    int32_t turned_away = 0;
    int32_t most = kTurnedAwayFirst;
    while (!full()) {
      const Waiting* waiting = order.next();
      if (waiting == nullptr) return;
      const Outcome outcome = consider(*waiting);
      if (stays(outcome)) left.push_back(waiting);
      turned_away = outcome == Outcome::kTurnedAway ? turned_away + 1 : 0;
      // Why a step with pressing requests was not filled further depends on the order in which others were turned away;
      // and with the end in sight, ranks are given more than their limits.
      if (turned_away < most || end_in_sight() || waiting->presses(input_.pressing_ns) ||
          std::ranges::any_of(fills_, &RankFill::pressing))
        continue;
      turned_away = 0;
      most *= 4;
      leave_out_misfits(order);
    }
  }

  // Likewise, at what was looked at before.
  void look_again(std::vector<const Waiting*>& left) {
    size_t kept = 0;
    for (size_t i = 0; i < left.size(); ++i)
      if (full() || stays(consider(*left[i]))) left[kept++] = left[i];
    left.resize(kept);
  }

  // Where all that waits was counted, shares that have no room may grow.
  [[nodiscard]] bool stays(Outcome outcome) const {
    return outcome == Outcome::kPassedOver || (outcome == Outcome::kTurnedAway && end_in_sight());
  }

  // Poured over what ranks have, that much comes up to a level.
  void take_rest(double rest) {
    std::vector<double> ahead;
    for (const RankFill& fill : fills_)
      if (!fill.closed()) ahead.push_back(load_ahead(fill));
    if (ahead.empty()) return;
    const double level = even_level(std::move(ahead), rest);
    for (RankFill& fill : fills_)
      if (!fill.closed()) fill.take_rest(fill.load() + level - load_ahead(fill));
  }

  [[nodiscard]] double load_ahead(const RankFill& fill) const {
    return input_.ranks[static_cast<size_t>(fill.rank())].load_ahead + fill.load();
  }

  // Those that were turned away so far have left on every rank what these would: that some were.
  void leave_out_misfits(LookOrder& order) {
    int64_t room = 0;
    for (const RankFill& fill : fills_)
      if (fill.below_target(false, true)) room = std::max(room, fill.room());
    const BlockTree& tree = input_.index->tree();
    order.leave_out([&](const Waiting& waiting) {
      if (waiting.tokens <= room) return false;
      const int64_t blocks = ceil_div<int64_t>(waiting.tokens - room, kBlockTokens);  // to be reused, or more
      if (blocks <= waiting.match.blocks) return false;
      if (blocks > RankFill::reusable_max(waiting.tokens)) return true;
      // It is on no open rank, so only from another request could it come, in the same step.
      return tree.references(waiting.request->path[static_cast<size_t>(blocks - 1)]) == 1;
    });
  }

  [[nodiscard]] bool full() const {
    for (const RankFill& fill : fills_)
      if (fill.below_target(true, beyond_share())) return false;
    return true;
  }

  // All that waits is in the window and was counted.
  [[nodiscard]] bool end_in_sight() const { return std::isfinite(left_max_); }

  // What is left, if that is so little that it would be a step a rank which takes no longer than its transfer.
  [[nodiscard]] std::optional<double> small_rest(const LookOrder& order, std::span<const Waiting* const> left) {
    if (!end_in_sight() || shared_elsewhere_) return std::nullopt;
    const auto takers = std::ranges::count_if(fills_, [](const RankFill& fill) { return !fill.closed(); });
    const double small = input_.config->load.floor * static_cast<double>(takers);
    double sum = 0;
    // What this plan computes counts too.
    const auto add = [&](const Waiting& waiting) {
      input_.index->match(waiting.request->path, resident_);
      int32_t blocks = 0;
      for (const RankFill& fill : fills_)
        blocks = std::max(blocks, fill.reusable(*waiting.request, resident_[static_cast<size_t>(fill.rank())]));
      sum += load_beyond(waiting.tokens, blocks);
      return sum < small;
    };
    if (std::ranges::all_of(left, [&](const Waiting* waiting) { return add(*waiting); })) order.visit_rest(add);
    return sum < small ? std::optional(sum) : std::nullopt;
  }

  // What is left once every rank has its even share. Ranks that get no step from this plan may still take theirs, and
  // those that have whole steps to take before their last may take it in these.
  [[nodiscard]] bool beyond_share() const {
    const bool more_steps =
        end_in_sight() && left_max_ >= PrefixSaturationPolicy::kEndSteps * input_.config->load.target;
    return last_call_ && elsewhere_.empty() && !more_steps;
  }

  [[nodiscard]] RouteRequest route_request(const Waiting& waiting, int32_t matched) const {
    RouteRequest route{.sequence = waiting.sequence - 1,
                       .tokens = waiting.tokens,
                       .uncached_tokens = waiting.tokens - int64_t{matched} * kBlockTokens,
                       .waited_ns = input_.now_ns - waiting.arrival_ns};
    if (end_in_sight() && fills_.size() + elsewhere_.size() > 1) {
      const double load = load_beyond(waiting.tokens, matched);
      route.share_left = load / left_max_;
      route.share_saved = matched > 0 ? (load_beyond(waiting.tokens, 0) - load) / left_max_ : 0;
      route.steps_left = left_max_ / input_.config->load.target;
    }
    return route;
  }

  // The longest match on ranks that get no step from this plan, or cannot take the request into theirs.
  [[nodiscard]] int32_t matched_elsewhere(const QueuedRequest& request) const {
    int32_t longest = 0;
    const auto look = [&](const RankView& view, int32_t blocks) {
      if (blocks > longest && worth_waiting(view, request, blocks)) longest = blocks;
    };
    for (const size_t rank : elsewhere_) look(input_.ranks[rank], resident_[rank]);
    for (const RankChoice& choice : choices_)
      if (!choice.eligible) look(input_.ranks[static_cast<size_t>(choice.rank)], choice.matched_blocks);
    return longest;
  }

  // While requests go on arriving, nobody waits for a rank that has long to do, but for what saves half of that.
  [[nodiscard]] bool worth_waiting(const RankView& view, const QueuedRequest& request, int32_t blocks) const {
    constexpr double kPatienceSteps = 4;
    const double ahead = view.load_ahead + view.load_overdue;
    return !input_.more_arrive || ahead <= kPatienceSteps * input_.config->load.target ||
           ahead <= kWaitForSaving * saved_by(request, std::min(blocks, RankFill::reusable_max(request.tokens())));
  }

  /// What reusing so many blocks of a request saves.
  [[nodiscard]] double saved_by(const QueuedRequest& request, int32_t blocks) const {
    return load_beyond(request.tokens(), 0) - load_beyond(request.tokens(), blocks);
  }

  /// Computing a request of so many tokens after so many blocks.
  [[nodiscard]] double load_beyond(int64_t tokens, int32_t blocks) const {
    const int64_t prefix = int64_t{blocks} * kBlockTokens;
    return input_.config->load.load(input_.cost->cost({.prefix = prefix, .suffix = tokens - prefix}));
  }

  /// A rank that cannot take the request now, but has a longer match than `best`, gets to it soon, and to those that
  /// wait for it already: one whose step this plan fills before `best` would have made the prefix once more, a busy one
  /// hardly later. Then the request counts as waiting for that rank.
  [[nodiscard]] bool better_after_wait(const QueuedRequest& request, size_t best) {
    const RankChoice& chosen = choices_[best];
    // More than one prefix may be worth is waiting: a copy of it lets this rank take part.
    const double saved_min = input_.rest ? 0 : fills_[best].left();
    const auto better = [&](size_t rank, int32_t blocks, double ahead, double patience) {
      if (blocks <= chosen.matched_blocks) return false;
      const RankView& view = input_.ranks[rank];
      const double load = load_beyond(request.tokens(), blocks);
      const double saved = chosen.request_load - load;
      // Who is late may be late for ever, and is waited for no longer than it has been late.
      const double until_begun = ahead + view.load_ahead + view.load_overdue + waiting_for_[rank];
      if (saved < saved_min || until_begun > patience * saved) return false;
      waiting_for_[rank] += load;
      return true;
    };
    const int32_t reusable = RankFill::reusable_max(request.tokens());
    for (const size_t rank : elsewhere_)
      if (better(rank, std::min(resident_[rank], reusable), 0, kPatienceForSaving)) return true;
    for (size_t i = 0; i < fills_.size(); ++i) {
      const RankChoice& choice = choices_[i];
      if (!choice.eligible && better(static_cast<size_t>(choice.rank), choice.matched_blocks, choice.load, 1))
        return true;
    }
    return false;
  }

  /// Near the end a request goes past ranks that have some of it, but no room for it in their even shares, to one that
  /// is done with it a good deal sooner. Where no share has room, a busy rank that has its share already may take it
  /// too, if it is done with it sooner.
  void keep_even_shares(const QueuedRequest& request) {
    if (!end_in_sight()) return;
    bool in_a_share = false;
    double soonest = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < fills_.size(); ++i) {
      if (!choices_[i].eligible) continue;
      in_a_share = in_a_share || fills_[i].has_share(choices_[i].request_load);
      soonest = std::min(soonest, choices_[i].load_ahead);
    }
    if (std::isinf(soonest)) return;
    for (size_t i = 0; i < fills_.size(); ++i) {
      RankChoice& choice = choices_[i];
      const int64_t tokens = request.tokens() - int64_t{choice.matched_blocks} * kBlockTokens;
      if (choice.matched_blocks > 0 && fills_[i].crowded(choice.request_load) &&
          choice.load_ahead > soonest + kLaterForSaving * saved_by(request, choice.matched_blocks)) {
        choice.eligible = false;
      } else if (!in_a_share && fills_[i].may_take_more(tokens) && choice.load_ahead < soonest) {
        choice.eligible = true;
      }
    }
  }

  /// Near the end a long request for which a share has hardly room is left for a rank that gets no step from this plan,
  /// if that is done with it sooner.
  void leave_to_others(const QueuedRequest& request) {
    if (!end_in_sight() || elsewhere_.empty()) return;
    for (size_t i = 0; i < fills_.size(); ++i) {
      RankChoice& choice = choices_[i];
      if (choice.eligible && fills_[i].hardly_fits(choice.request_load))
        choice.eligible = soonest_elsewhere(request) >= choice.load_ahead;
    }
  }

  /// The load after which the first of those ranks would be done with the request.
  [[nodiscard]] double soonest_elsewhere(const QueuedRequest& request) const {
    const int32_t reusable = RankFill::reusable_max(request.tokens());
    double soonest = std::numeric_limits<double>::infinity();
    for (const size_t rank : elsewhere_) {
      const double load = load_beyond(request.tokens(), std::min(resident_[rank], reusable));
      soonest = std::min(soonest, input_.ranks[rank].load_ahead + load);
    }
    return soonest;
  }

  [[nodiscard]] Outcome consider(const Waiting& waiting) {
    const QueuedRequest& request = *waiting.request;
    const bool pressing = request.presses(input_.pressing_ns);
    input_.index->match(request.path, resident_);
    CostAt cost;
    int32_t matched = 0;
    for (size_t i = 0; i < fills_.size(); ++i) {
      choices_[i] = choice(fills_[i], request, pressing, cost);
      matched = std::max(matched, choices_[i].matched_blocks);
    }
    keep_even_shares(request);
    if (!pressing) leave_to_others(request);
    RouteRequest route = route_request(waiting, matched);
    route.matched_elsewhere = matched_elsewhere(request);
    // Who presses takes what there is. So does who was passed over too often, but for a rank that is soon there.
    const bool due = input_.first_is_due && &waiting == input_.window.front();
    route.last_call = last_call_ || pressing || due;
    const int32_t rank = input_.policy->choose(route, choices_);
    if (rank < 0 && std::ranges::any_of(choices_, &RankChoice::eligible)) return Outcome::kPassedOver;
    if (rank >= 0 && (input_.rest || last_call_ || due) && !pressing) {
      const auto chosen = std::ranges::find(choices_, rank, &RankChoice::rank);
      if (better_after_wait(request, static_cast<size_t>(chosen - choices_.begin()))) return Outcome::kPassedOver;
    }
    for (size_t i = 0; i < fills_.size(); ++i) {
      if (rank < 0) {
        fills_[i].turned_away(pressing);
      } else if (choices_[i].rank == rank) {
        ZP_CHECK(choices_[i].eligible, "the policy chose rank {}, which has no room", rank);
        fills_[i].place(request, choices_[i].matched_blocks, resident_[static_cast<size_t>(rank)]);
      }
    }
    if (rank < 0) return Outcome::kTurnedAway;
    ++placed_;
    return Outcome::kPlaced;
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
    if (cost.blocks != blocks) cost = {.blocks = blocks, .load = load_beyond(request.tokens(), blocks)};
    const bool wanted = (fill.below_target(pressing, beyond_share()) && fill.suits(cost.load)) ||
                        (blocks > 0 && fill.joins_rest(cost.load)) ||
                        (blocks > 0 && !pressing && fill.worth_joining(saved_by(request, blocks)) &&
                         worth_waiting(view, request, blocks));
    return {.rank = fill.rank(),
            .eligible = wanted && fill.fits(request.tokens() - int64_t{blocks} * kBlockTokens),
            .load = fill.load(),
            .load_ahead = view.load_ahead + std::max(fill.load() + cost.load, input_.config->load.floor),
            .load_unfinished = view.load_unfinished + fill.load(),
            .request_load = cost.load,
            .matched_blocks = blocks,
            .waiting = view.staged_requests + fill.requests(),
            .running = view.running_requests,
            .tokens = view.tokens_unfinished + fill.sequence_tokens()};
  }

  const PlanInput& input_;
  std::vector<RankFill> fills_;
  std::vector<size_t> elsewhere_;  ///< ranks that get no step from this plan, but for the retired
  std::vector<RankChoice> choices_;
  double left_max_ = 0;  ///< for a rank, of all that waits
  int64_t placed_ = 0;   ///< requests, in this plan
  bool last_call_ = false;
  bool shared_elsewhere_ = false;    ///< a rank that gets no step from this plan has a share of what waits
  std::vector<int32_t> resident_;    ///< [ranks] first blocks of the request that the rank has
  std::vector<double> waiting_for_;  ///< [ranks] load of those that rather wait for it, of one look at all
};

}  // namespace

RankSet open_ranks(std::span<const RankView> ranks) {
  RankSet open(static_cast<int32_t>(ranks.size()));
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].open) open.add(static_cast<int32_t>(rank));
  return open;
}

void find_match(Waiting& waiting, const PrefixIndex& index, const RankSet& ranks) {
  const std::span<const NodeId> path = waiting.request->path;
  const auto reusable = static_cast<size_t>(RankFill::reusable_max(waiting.tokens));
  waiting.match = index.longest_match(path.first(reusable), ranks, waiting.match.blocks);
  waiting.matched = true;
}

BatchPlan plan_batch(const PlanInput& input) { return Pass(input).run(); }

}  // namespace zp
