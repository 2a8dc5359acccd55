// Plans against those made the straightforward way: every request matched with every rank, all of them sorted, all of
// them looked at, and what steps share and keep found by comparing sets.
#include "zp/schedule/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "tests/schedule/scheduler_under_test.h"
#include "zp/schedule/rank_fill.h"
#include "zp/schedule/step_targets.h"

namespace zp {
namespace {

class StraightforwardPlan {
 public:
  explicit StraightforwardPlan(const PlanInput& input)
      : input_(input), resident_(input.ranks.size()), waiting_for_(input.ranks.size()) {
    const std::vector<StepTarget> targets = step_targets(input);
    for (size_t rank = 0; rank < input.ranks.size(); ++rank) {
      const RankView& view = input.ranks[rank];
      if (view.open) fills_.emplace_back(static_cast<int32_t>(rank), targets[rank], input);
      all_open_ = all_open_ && (view.open || view.retired);
      if (!view.retired) left_max_ = std::max(left_max_, targets[rank].left);
      shared_elsewhere_ = shared_elsewhere_ || !(view.open || view.retired || targets[rank].load == 0);
    }
  }

  BatchPlan run() {
    std::vector<const Waiting*> left;
    for (const Waiting* waiting : ordered())
      if (full() || consider(*waiting)) left.push_back(waiting);
    last_call_ = true;
    bool placed = true;
    std::optional<double> rest = small_rest(left);
    for (bool first = true; placed && (rest || first); first = false) {
      if (rest) take_rest(*rest);
      const auto stay = [&](const Waiting* waiting) { return full() || consider(*waiting); };
      const size_t before = left.size();
      std::ranges::fill(waiting_for_, 0);
      std::vector<const Waiting*> still;
      std::ranges::copy_if(left, std::back_inserter(still), stay);
      left = std::move(still);
      placed = left.size() < before && end_in_sight();
      rest = small_rest(left);
    }
    BatchPlan plan;
    for (RankFill& fill : fills_) plan.steps.push_back(fill.finish());
    return plan;
  }

 private:
  [[nodiscard]] bool end_in_sight() const { return std::isfinite(left_max_); }
  [[nodiscard]] bool beyond_share() const {
    return last_call_ && all_open_ && !(end_in_sight() && left_max_ >= 2 * input_.config->load.target);
  }
  [[nodiscard]] std::optional<double> small_rest(const std::vector<const Waiting*>& left) {
    if (!end_in_sight() || shared_elsewhere_) return std::nullopt;
    double sum = 0;
    for (const Waiting* waiting : left) {
      const QueuedRequest& request = *waiting->request;
      input_.index->match(request.path, resident_);
      int32_t blocks = 0;
      for (const RankFill& fill : fills_)
        blocks = std::max(blocks, fill.reusable(request, resident_[static_cast<size_t>(fill.rank())]));
      sum += load(int64_t{blocks} * kBlockTokens, request.tokens());
    }
    const auto takers = std::ranges::count_if(fills_, [](const RankFill& fill) { return !fill.closed(); });
    return sum < input_.config->load.floor * static_cast<double>(takers) ? std::optional(sum) : std::nullopt;
  }
  // The level is found by halving.
  void take_rest(double rest) {
    double low = std::numeric_limits<double>::infinity();
    double high = rest;
    const auto ahead = [&](const RankFill& f) {
      return input_.ranks[static_cast<size_t>(f.rank())].load_ahead + f.load();
    };
    for (const RankFill& fill : fills_) {
      if (fill.closed()) continue;
      low = std::min(low, ahead(fill));
      high = std::max(high, ahead(fill) + rest);
    }
    for (int i = 0; i < 200; ++i) {
      const double middle = (low + high) / 2;
      double poured = 0;
      for (const RankFill& fill : fills_)
        if (!fill.closed()) poured += std::max(0.0, middle - ahead(fill));
      (poured < rest ? low : high) = middle;
    }
    for (RankFill& fill : fills_)
      if (!fill.closed()) fill.take_rest(fill.load() + high - ahead(fill));
  }
  [[nodiscard]] bool full() const {
    return std::ranges::none_of(fills_, [&](const RankFill& f) { return f.below_target(true, beyond_share()); });
  }
  [[nodiscard]] double load(int64_t prefix, int64_t tokens) const {
    return input_.config->load.load(input_.cost->cost({.prefix = prefix, .suffix = tokens - prefix}));
  }

  std::vector<const Waiting*> ordered() {
    std::vector<const Waiting*> window(input_.window.begin(), input_.window.end());
    if (!input_.policy->reorders()) return window;
    std::map<const Waiting*, std::tuple<bool, int64_t, bool, double>> keys;
    for (const Waiting* waiting : window) {
      const QueuedRequest& request = *waiting->request;
      const int32_t longest = longest_match(request);
      keys[waiting] = {!(input_.first_is_due && waiting == input_.window.front()), -int64_t{request.request.priority},
                       !request.presses(input_.pressing_ns), input_.policy->order_key(route(request, longest))};
    }
    std::ranges::stable_sort(window, {}, [&](const Waiting* waiting) { return keys.at(waiting); });
    return window;
  }

  // On the open ranks.
  [[nodiscard]] int32_t longest_match(const QueuedRequest& request) {
    input_.index->match(request.path, resident_);
    int32_t longest = 0;
    for (const RankFill& fill : fills_) longest = std::max(longest, resident_[static_cast<size_t>(fill.rank())]);
    return std::min(longest, RankFill::reusable_max(request.tokens()));
  }

  [[nodiscard]] RouteRequest route(const QueuedRequest& request, int32_t matched) const {
    RouteRequest route{.sequence = request.sequence - 1,
                       .tokens = request.tokens(),
                       .uncached_tokens = request.tokens() - int64_t{matched} * kBlockTokens,
                       .waited_ns = input_.now_ns - request.request.arrival_ns};
    if (!end_in_sight() || std::ranges::count(input_.ranks, false, &RankView::retired) == 1) return route;
    route.share_left = load(int64_t{matched} * kBlockTokens, request.tokens()) / left_max_;
    route.share_saved =
        (load(0, request.tokens()) - load(int64_t{matched} * kBlockTokens, request.tokens())) / left_max_;
    route.steps_left = left_max_ / input_.config->load.target;
    return route;
  }

  // Who has an even share goes before who has some of the request; a busy rank may take it where nobody has.
  void keep_even_shares(const QueuedRequest& request, std::vector<RankChoice>& choices) const {
    if (!end_in_sight()) return;
    double soonest = std::numeric_limits<double>::infinity();
    bool has_share = false;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (!choices[i].eligible) continue;
      has_share = has_share || fills_[i].has_share(choices[i].request_load);
      soonest = std::min(soonest, choices[i].load_ahead);
    }
    for (size_t i = 0; i < choices.size() && std::isfinite(soonest); ++i) {
      RankChoice& choice = choices[i];
      const int64_t prefix = int64_t{choice.matched_blocks} * kBlockTokens;
      const double later = kLaterForSaving * (load(0, request.tokens()) - choice.request_load);
      if (prefix > 0 && fills_[i].crowded(choice.request_load) && choice.load_ahead > soonest + later) {
        choice.eligible = false;
      } else if (!has_share && fills_[i].may_take_more(request.tokens() - prefix) && choice.load_ahead < soonest) {
        choice.eligible = true;
      }
    }
  }

  // A long request goes where half of it has room in the share, or to a busy rank that is done with it sooner.
  void leave_to_others(const QueuedRequest& request, std::vector<RankChoice>& choices) const {
    for (size_t i = 0; i < choices.size(); ++i) {
      if (!end_in_sight() || !fills_[i].hardly_fits(choices[i].request_load)) continue;
      for (size_t rank = 0; rank < resident_.size(); ++rank) {
        if (input_.ranks[rank].open || input_.ranks[rank].retired) continue;
        const int64_t reused = std::min(resident_[rank], RankFill::reusable_max(request.tokens()));
        const double there = input_.ranks[rank].load_ahead + load(reused * kBlockTokens, request.tokens());
        if (there < choices[i].load_ahead) choices[i].eligible = false;
      }
    }
  }

  // To wait for a rank that has so many blocks.
  [[nodiscard]] bool worth(const QueuedRequest& request, size_t rank, int32_t blocks) const {
    const RankView& view = input_.ranks[rank];
    const int64_t reused = std::min(blocks, RankFill::reusable_max(request.tokens()));
    const double saved = load(0, request.tokens()) - load(reused * kBlockTokens, request.tokens());
    const double ahead = view.load_ahead + view.load_overdue;
    return !input_.more_arrive || ahead <= std::max(4 * input_.config->load.target, 2 * saved);
  }

  // Some other rank with more of the request gets to it soon enough.
  [[nodiscard]] bool waits_for_better(const QueuedRequest& request, const std::vector<RankChoice>& choices,
                                      size_t best) {
    const RankChoice& chosen = choices[best];
    const double saved_min = input_.rest ? 0 : fills_[best].left();
    const auto better = [&](int32_t rank, int32_t blocks, double ahead, double patience) {
      const RankView& view = input_.ranks[static_cast<size_t>(rank)];
      const double rest = load(int64_t{blocks} * kBlockTokens, request.tokens());
      const double saved = chosen.request_load - rest;
      double& others = waiting_for_[static_cast<size_t>(rank)];
      if (blocks <= chosen.matched_blocks || saved < saved_min ||
          ahead + view.load_ahead + view.load_overdue + others > patience * saved)
        return false;
      others += rest;
      return true;
    };
    for (size_t rank = 0; rank < resident_.size(); ++rank) {
      const int32_t blocks = std::min(resident_[rank], RankFill::reusable_max(request.tokens()));
      if (!input_.ranks[rank].open && !input_.ranks[rank].retired &&
          better(static_cast<int32_t>(rank), blocks, 0, 1.25))
        return true;
    }
    return std::ranges::any_of(choices, [&](const RankChoice& choice) {
      return !choice.eligible && better(choice.rank, choice.matched_blocks, choice.load, 1);
    });
  }

  // True if it is in no step, and may get into one later in this plan.
  bool consider(const Waiting& waiting) {
    const QueuedRequest& request = *waiting.request;
    const bool pressing = request.presses(input_.pressing_ns);
    input_.index->match(request.path, resident_);
    std::vector<RankChoice> choices;
    int32_t matched = 0;
    int32_t elsewhere = 0;
    for (size_t rank = 0; rank < resident_.size(); ++rank)
      if (!input_.ranks[rank].open && !input_.ranks[rank].retired && worth(request, rank, resident_[rank]))
        elsewhere = std::max(elsewhere, resident_[rank]);
    for (const RankFill& fill : fills_) {
      const auto rank = static_cast<size_t>(fill.rank());
      const RankView& view = input_.ranks[rank];
      const int32_t blocks = fill.reusable(request, resident_[rank]);
      const int64_t prefix = int64_t{blocks} * kBlockTokens;
      const double cost = load(prefix, request.tokens());
      const bool wanted = (fill.below_target(pressing, beyond_share()) && fill.suits(cost)) ||
                          (blocks > 0 && fill.joins_rest(cost)) ||
                          (blocks > 0 && !pressing && fill.worth_joining(load(0, request.tokens()) - cost) &&
                           worth(request, rank, blocks));
      choices.push_back({.rank = fill.rank(),
                         .eligible = wanted && fill.fits(request.tokens() - prefix),
                         .load = fill.load(),
                         .load_ahead = view.load_ahead + std::max(fill.load() + cost, input_.config->load.floor),
                         .load_unfinished = view.load_unfinished + fill.load(),
                         .request_load = cost,
                         .matched_blocks = blocks,
                         .waiting = view.staged_requests + fill.requests(),
                         .running = view.running_requests,
                         .tokens = view.tokens_unfinished + fill.sequence_tokens()});
      matched = std::max(matched, blocks);
    }
    keep_even_shares(request, choices);
    if (!pressing) leave_to_others(request, choices);
    for (const RankChoice& choice : choices)
      if (!choice.eligible && worth(request, static_cast<size_t>(choice.rank), choice.matched_blocks))
        elsewhere = std::max(elsewhere, choice.matched_blocks);
    RouteRequest asked = route(request, matched);
    asked.matched_elsewhere = elsewhere;
    const bool first = input_.first_is_due && &waiting == input_.window.front();
    asked.last_call = last_call_ || pressing || first;
    const int32_t rank = input_.policy->choose(asked, choices);
    if (rank < 0) {
      if (std::ranges::any_of(choices, &RankChoice::eligible)) return true;
      for (RankFill& fill : fills_) fill.turned_away(pressing);
      return end_in_sight();
    }
    const auto best = static_cast<size_t>(std::ranges::find(choices, rank, &RankChoice::rank) - choices.begin());
    const bool patient = (input_.rest || last_call_ || first) && !pressing;
    if (patient && waits_for_better(request, choices, best)) return true;
    const auto fill = std::ranges::find(fills_, rank, &RankFill::rank);
    fill->place(request, std::ranges::find(choices, rank, &RankChoice::rank)->matched_blocks,
                resident_[static_cast<size_t>(rank)]);
    return false;
  }

  const PlanInput& input_;
  std::vector<RankFill> fills_;
  std::vector<int32_t> resident_;
  std::vector<double> waiting_for_;
  double left_max_ = 0;
  bool shared_elsewhere_ = false;
  bool last_call_ = false;
  bool all_open_ = true;
};

/// A made-up queue, cache and set of ranks.
class Situation {
 public:
  explicit Situation(uint32_t seed) : random_(seed), cost_(tiny_shape()), index_(make_pools()) {
    config_.load = token_load(200 + below(3000));
    config_.load.target_deadline = below(2) * config_.load.target / 2;
    config_.load.floor = config_.load.target * below(3) / 2;
    // In some, steps end for want of tokens.
    config_.step_tokens_max = 200 + below(below(4) == 0 ? 4000 : below(2) == 0 ? 800 : 100);
    for (int32_t rank = 0; rank < index_.ranks(); ++rank)
      for (int i = below(60); i > 0; --i) cache(rank);
    for (size_t rank = 0; rank < static_cast<size_t>(index_.ranks()); ++rank)
      ranks_.push_back({.open = below(3) != 0,
                        .load_unfinished = 1.0 * below(500),
                        .load_ahead = 1.0 * below(below(4) == 0 ? 9000 : 300),
                        .load_overdue = below(4) == 0 ? 1.0 * below(300) : 0,
                        .staged_requests = below(9),
                        .running_requests = below(9),
                        .tokens_unfinished = below(900),
                        .unfinished_step = below(2) == 0 ? std::optional<uint64_t>(rank) : std::nullopt});
    for (int32_t count = 1 + below(below(4) == 0 ? 40 : below(2) == 0 ? 200 : 900); count > 0; --count) submit();
  }

  void compare() {
    const auto policy = make_policy(below(4) == 0 ? "shortest-prefill" : below(5) == 0 ? "vllm" : "prefix-saturation");
    // As if other ranks had been open before.
    RankSet before(index_.ranks());
    for (int32_t rank = 0; rank < index_.ranks(); ++rank)
      if (below(2) == 0) before.add(rank);
    const int64_t pressing_ns = presses_ ? 500 : -1;
    const bool due = below(3) == 0;
    std::vector<const Waiting*> window;
    queue_.visit({.pressing_ns = pressing_ns, .look_ahead = INT32_MAX, .bypass_max = due ? 0 : INT32_MAX},
                 [&](Waiting& waiting) {
                   if (below(2) == 0) find_match(waiting, index_, before);
                   update_match(waiting, index_, open_ranks(ranks_));
                   window.push_back(&waiting);
                   return true;
                 });
    const PlanInput input{.window = window,
                          .more_waiting = below(3) == 0,
                          .more_arrive = below(4) == 0,
                          .first_is_due = due,
                          .rest = below(4) == 0,
                          .index = &index_,
                          .ranks = ranks_,
                          .config = &config_,
                          .cost = &cost_,
                          .policy = policy.get(),
                          .now_ns = 1000,
                          .pressing_ns = pressing_ns};
    const BatchPlan plan = plan_batch(input);
    const BatchPlan expected = StraightforwardPlan(input).run();
    ASSERT_EQ(plan.steps.size(), expected.steps.size());
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      compare_steps(plan.steps[i], expected.steps[i]);
      check_sharing(plan.steps[i]);
    }
  }

 private:
  int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit)); }

  std::vector<int32_t> make_pools() {
    std::vector<int32_t> pools(static_cast<size_t>(below(6) == 0 ? 66 : 1 + below(5)));
    for (int32_t& blocks : pools) blocks = below(3) == 0 ? 4000 : below(60);
    config_.pool_blocks = pools;
    return pools;
  }

  // A walk down a tree of texts, then something of its own.
  std::vector<int32_t> make_text() {
    std::vector<int32_t> tokens;
    for (int32_t blocks = below(20), branch = below(4); blocks > 0; --blocks) {
      if (below(8) == 0) branch = 4 * branch + below(4);
      tokens.insert(tokens.end(), kBlockTokens, branch);
    }
    const int32_t own = below(3) == 0 ? 0 : below(below(4) == 0 ? 300 : 60);
    for (int32_t i = 0; i < own; ++i) tokens.push_back(1'000'000 + 1000 * static_cast<int32_t>(next_id_) + i);
    if (tokens.empty()) tokens.push_back(1);
    return tokens;
  }

  std::vector<NodeId> acquire(const std::vector<int32_t>& tokens) {
    const BlockChain chain("n", tokens);
    return index_.acquire({.cache_namespace = "n", .tokens = tokens, .chain = &chain});
  }

  // Some of the rank's blocks stay pending, and pinned.
  void cache(int32_t rank) {
    cached_.push_back(joined(make_text(), text(100 + static_cast<int32_t>(cached_.size() % 500), below(200))));
    const std::vector<NodeId> path = acquire(cached_.back());
    const auto pinned = static_cast<size_t>(index_.pin(rank, path));
    const RoomCounts room = index_.room(rank);
    const auto made = std::min(path.size() - pinned, static_cast<size_t>(room.free + room.one_off + room.reused));
    const auto nodes = std::span(path).subspan(pinned, made);
    (void)index_.promise(rank, nodes, below(2) == 0);
    if (below(4) != 0) {
      for (const NodeId node : nodes) index_.commit(rank, node);
      // Blocks after pending ones stay pinned too.
      const auto read = std::span(path).first(pinned + made);
      const bool whole =
          std::ranges::none_of(read, [&](NodeId node) { return index_.residency(node, rank) == Residency::kPending; });
      if (whole) index_.unpin(rank, read);
    }
    index_.release(path);
  }

  void submit() {
    auto request = std::make_unique<QueuedRequest>();
    std::vector<int32_t> tokens = make_text();
    // Now and then one that a rank was given, and that nobody else asks for.
    if (!cached_.empty() && below(8) == 0) {
      tokens = joined(cached_.back(), text(600 + static_cast<int32_t>(next_id_), below(30)));
      cached_.pop_back();
    }
    request->request = request_of(next_id_, std::move(tokens));
    ++next_id_;
    request->request.arrival_ns = below(1000);
    request->request.priority = below(6) == 0 ? below(3) - 1 : 0;
    if (below(4) == 0) request->request.deadline_ns = below(1000);
    request->path = acquire(request->request.tokens);
    request->interned = true;
    queue_.push(std::move(request));
  }

  static void compare_steps(const PlannedStep& step, const PlannedStep& expected) {
    ASSERT_EQ(step.rank, expected.rank);
    ASSERT_EQ(step.segments.size(), expected.segments.size());
    ASSERT_EQ(step.tokens, expected.tokens);
    ASSERT_EQ(step.load, expected.load);
    ASSERT_EQ(step.target, expected.target);
    ASSERT_EQ(step.filled_by, expected.filled_by);
    ASSERT_EQ(step.relies_on, expected.relies_on);
    for (size_t i = 0; i < step.segments.size(); ++i) {
      const PlannedSegment& a = step.segments[i];
      const PlannedSegment& b = expected.segments[i];
      ASSERT_EQ(a.request->request.id, b.request->request.id);
      ASSERT_EQ(std::tuple(a.begin, a.end, a.row), std::tuple(b.begin, b.end, b.row));
      ASSERT_EQ(a.prefix, b.prefix);
      ASSERT_EQ(std::tuple(a.fresh_blocks, a.keep, a.keep_wanted), std::tuple(b.fresh_blocks, b.keep, b.keep_wanted));
    }
  }

  // What a step's segments share, by sets.
  void check_sharing(const PlannedStep& step) const {
    std::map<NodeId, int32_t> made;  // by the number of segments that have it
    std::set<NodeId> read;           // by others than its maker
    for (const PlannedSegment& segment : step.segments) {
      const std::vector<NodeId>& path = segment.request->path;
      const auto has = [&](NodeId node) { return index_.resident(node, step.rank) || made.contains(node); };
      size_t longest = 0;
      while (longest < static_cast<size_t>((segment.request->tokens() - 1) / kBlockTokens) && has(path[longest]))
        ++longest;
      ASSERT_EQ(segment.prefix.size(), longest);
      ASSERT_EQ(segment.fresh_blocks, std::ranges::count_if(path, [&](NodeId node) { return !has(node); }));
      for (size_t i = 0; i < path.size(); ++i) {
        if (index_.resident(path[i], step.rank)) continue;
        if (++made[path[i]] > 1 && i < longest) read.insert(path[i]);
      }
    }
    const RoomCounts room = index_.room(step.rank);
    const bool ample = room.free > static_cast<int32_t>(made.size());
    for (const PlannedSegment& segment : step.segments) {
      const std::vector<NodeId>& path = segment.request->path;
      int32_t wanted = 0;
      while (wanted < segment.fresh_blocks) {
        const NodeId node = path[segment.prefix.size() + static_cast<size_t>(wanted)];
        if (!read.contains(node) && index_.tree().references(node) == made.at(node)) break;
        ++wanted;
      }
      ASSERT_LE(segment.keep_wanted, wanted);
      if (ample) {
        ASSERT_EQ(segment.keep_wanted, wanted);
      }
    }
  }

  std::mt19937 random_;
  SchedulerConfig config_;
  CostModel cost_;
  PrefixIndex index_;
  std::vector<RankView> ranks_;
  RequestQueue queue_;
  std::vector<std::vector<int32_t>> cached_;
  uint64_t next_id_ = 1;
  bool presses_ = below(2) == 0;
};

TEST(Planner, PlansWhatTheStraightforwardWayDoes) {
  for (uint32_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Situation situation(seed);
    situation.compare();
    if (testing::Test::HasFatalFailure()) return;
  }
}

// A rank with a long step ahead has its share of what waits, and is closed but to what is worth joining it. So the last
// request goes there, where its prefix is, though 70 before it found no room on the other rank, and it would not
// either.
TEST(Planner, AClosedRankIsAskedThoughTheOtherHasNoRoomForMany) {
  SchedulerConfig config{.pool_blocks = {100, 100}, .load = token_load(1000), .step_tokens_max = 600};
  const CostModel cost(tiny_shape());
  PrefixIndex index(config.pool_blocks);
  const auto acquire = [&](const std::vector<int32_t>& tokens) {
    const BlockChain chain("n", tokens);
    return index.acquire({.cache_namespace = "n", .tokens = tokens, .chain = &chain});
  };
  const std::vector<int32_t> prefix = text(900, 5 * kBlockTokens);
  const std::vector<NodeId> cached = acquire(prefix);
  (void)index.promise(1, cached, true);
  for (const NodeId node : cached) index.commit(1, node);

  RequestQueue queue;
  const auto submit = [&](uint64_t id, std::vector<int32_t> tokens) {
    auto request = std::make_unique<QueuedRequest>();
    request->request = request_of(id, std::move(tokens));
    request->path = acquire(request->request.tokens);
    request->interned = true;
    queue.push(std::move(request));
  };
  submit(1, text(1, 500));
  for (uint64_t id = 2; id < 72; ++id) submit(id, text(static_cast<int32_t>(id), 105));
  submit(72, joined(prefix, text(72, 120)));

  const std::vector<RankView> ranks = {{.open = true}, {.open = true, .load_ahead = 10'000, .unfinished_step = 1}};
  std::vector<const Waiting*> window;
  queue.visit({.pressing_ns = -1, .look_ahead = INT32_MAX, .bypass_max = INT32_MAX}, [&](Waiting& waiting) {
    update_match(waiting, index, open_ranks(ranks));
    window.push_back(&waiting);
    return true;
  });
  // In order of arrival: ours would look at the prefix first.
  class InOrder final : public RoutePolicy {
   public:
    [[nodiscard]] std::string_view name() const noexcept override { return "in order"; }
    [[nodiscard]] RouteTime time() const noexcept override { return ours_.time(); }
    [[nodiscard]] int32_t choose(const RouteRequest& request, std::span<const RankChoice> choices) const override {
      return ours_.choose(request, choices);
    }
    [[nodiscard]] bool reorders() const noexcept override { return true; }
    [[nodiscard]] double order_key(const RouteRequest& request) const override {
      return static_cast<double>(request.sequence);
    }
    [[nodiscard]] double long_share() const noexcept override { return ours_.long_share(); }

   private:
    PrefixSaturationPolicy ours_;
  };
  const InOrder policy;
  const BatchPlan plan = plan_batch(
      {.window = window, .index = &index, .ranks = ranks, .config = &config, .cost = &cost, .policy = &policy});
  ASSERT_EQ(plan.steps.size(), 2U);
  EXPECT_EQ(plan.steps[0].segments.size(), 1U);
  ASSERT_EQ(plan.steps[1].segments.size(), 1U);
  EXPECT_EQ(plan.steps[1].segments[0].request->request.id, 72U);
}

// The first 70 find the step below the target of steps with a pressing request, and too little room; the last ones find
// the step beyond that target.
TEST(Planner, SaysThatADeadlineEndedAStepThoughMostOfTheRestFoundNoRoom) {
  SchedulerConfig config{.pool_blocks = {0}, .load = token_load(1000), .step_tokens_max = 600};
  config.load.target_deadline = 500;
  SchedulerUnderTest t(std::move(config));
  ScheduleRequest urgent = request_of(1, text(1, 300));
  urgent.deadline_ns = 0;
  t.submit(std::move(urgent));
  for (uint64_t id = 2; id < 72; ++id) t.submit(id, text(static_cast<int32_t>(id), 400));
  t.submit(72, text(72, 250));
  for (uint64_t id = 73; id < 76; ++id) t.submit(id, text(static_cast<int32_t>(id), 400));
  const auto step = t.next();
  EXPECT_EQ(ids(step), list({1, 72}));
  EXPECT_EQ(step->filled_by, StopReason::kDeadline);
}

// 104 and 100 are to be done, 240 wait: rank 1, the only one that gets a step, has a share of 122. Of two requests of
// 120 it takes one; with the other it would be done at 340, rank 0 at 224, or at 364 if it is slow: then rank 1 takes
// both.
TEST(Planner, LeavesALongRequestToABusyRankThatIsDoneSooner) {
  for (const double ahead : {104.0, 244.0}) {
    SchedulerConfig config{.pool_blocks = {64, 64}, .load = token_load(100), .step_tokens_max = 1000};
    config.load.floor = 50;
    const CostModel cost(tiny_shape());
    const PrefixSaturationPolicy policy;
    PrefixIndex index(config.pool_blocks);
    std::array<QueuedRequest, 2> requests;
    std::array<Waiting, 2> waiting;
    std::vector<const Waiting*> window;
    for (size_t i = 0; i < 2; ++i) {
      requests[i].request = request_of(i + 1, text(static_cast<int32_t>(i + 1), 120));
      requests[i].sequence = i + 1;
      const BlockChain chain("n", requests[i].request.tokens);
      requests[i].path = index.acquire({.cache_namespace = "n", .tokens = requests[i].request.tokens, .chain = &chain});
      waiting[i] = glance(requests[i]);
      window.push_back(&waiting[i]);
    }
    const std::vector<RankView> ranks = {{.load_ahead = ahead, .unfinished_step = 1},
                                         {.open = true, .load_ahead = 100, .unfinished_step = 2}};
    for (Waiting& w : waiting) find_match(w, index, open_ranks(ranks));
    const BatchPlan plan = plan_batch(
        {.window = window, .index = &index, .ranks = ranks, .config = &config, .cost = &cost, .policy = &policy});
    ASSERT_EQ(plan.steps.size(), 1U);
    EXPECT_EQ(plan.steps[0].segments.size(), ahead < 200 ? 1U : 2U);
    for (const QueuedRequest& request : requests) index.release(request.path);
  }
}

}  // namespace
}  // namespace zp
