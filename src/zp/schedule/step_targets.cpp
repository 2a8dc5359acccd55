// The load that waits, the level that it fills ranks to, and each rank's part.
#include "zp/schedule/step_targets.h"

#include <algorithm>
#include <span>
#include <utility>

#include "zp/schedule/node_map.h"
#include "zp/schedule/rank_fill.h"

namespace zp {
namespace {

constexpr double kEvenSteps = 2;  // from here on a rank has whole steps to take first
constexpr double kUsableTokens = 0.9;

struct Backlog {
  double load = 0;
  int64_t tokens = 0;  ///< to be computed
};

/// What waits, each block that several requests share counted once; counting stops beyond a load of `most`.
Backlog count_waiting(const PlanInput& input, double most) {
  Backlog sum;
  NodeMap<bool> counted;
  RankSet all(static_cast<int32_t>(input.ranks.size()));
  for (int32_t rank = 0; std::cmp_less(rank, input.ranks.size()); ++rank) all.add(rank);
  for (const Waiting* waiting : input.window) {
    const QueuedRequest* request = waiting->request;
    const int32_t reusable = RankFill::reusable_max(request->tokens());
    const std::span<const NodeId> path = request->path;
    int32_t blocks =
        input.index->longest_match(path.first(static_cast<size_t>(reusable)), all, waiting->match.blocks).blocks;
    while (blocks < reusable && counted.find(request->path[static_cast<size_t>(blocks)]) != nullptr) ++blocks;
    // Who has a block has all before it: from the first that no other request has on, nobody will ask.
    for (size_t i = static_cast<size_t>(blocks); i < path.size() && input.index->tree().references(path[i]) > 1; ++i)
      (void)counted.insert(path[i], true);
    const int64_t prefix = int64_t{blocks} * kBlockTokens;
    const RequestCost cost = input.cost->cost({.prefix = prefix, .suffix = request->tokens() - prefix});
    sum.load += input.config->load.load(cost);
    sum.tokens += cost.tokens;
    if (sum.load > most) break;
  }
  return sum;
}

/// The window has more work than this, by the blocks in it that no rank has, each alone.
bool surely_beyond(const PlanInput& input, double most) {
  constexpr double kRounding = 1.001;
  const double block = input.config->load.load(input.cost->cost({.prefix = 0, .suffix = kBlockTokens}));
  return block * input.index->tree().unheld() > kRounding * most;
}

/// No request of the window has more.
double load_max(const PlanInput& input) {
  int64_t tokens = 0;
  for (const Waiting* waiting : input.window) tokens = std::max<int64_t>(tokens, waiting->tokens);
  return input.config->load.load(input.cost->cost({.prefix = 0, .suffix = tokens}));
}

/// More waiting work than this leaves every rank whole steps, whoever is ahead, and makes no request long.
double countable(const PlanInput& input, std::span<const double> ahead) {
  const double level = std::max(*std::ranges::max_element(ahead) + kEvenSteps * input.config->load.target,
                                load_max(input) / input.policy->long_share());
  double sum = 0;
  for (const double load : ahead) sum += level - load;
  return sum;
}

}  // namespace

double even_level(std::vector<double> ahead, double waiting) {
  std::ranges::sort(ahead);
  for (size_t below = 1; below < ahead.size(); ++below) {
    const double room = (ahead[below] - ahead[below - 1]) * static_cast<double>(below);
    if (waiting <= room) return ahead[below - 1] + waiting / static_cast<double>(below);
    waiting -= room;
  }
  return ahead.back() + waiting / static_cast<double>(ahead.size());
}

std::vector<StepTarget> step_targets(const PlanInput& input) {
  const LoadRule& rule = input.config->load;
  std::vector<StepTarget> targets(input.ranks.size(), {.load = rule.target});
  const auto live = std::ranges::count_if(input.ranks, [](const RankView& rank) { return !rank.retired; });
  for (size_t r = 0; r < targets.size(); ++r) {
    const RankView& rank = input.ranks[r];
    const bool has_long_to_do = rank.unfinished_step && rank.load_ahead > kEvenSteps * rule.target;
    if (input.more_arrive && live > 1 && has_long_to_do) targets[r].load = 0;
  }
  std::vector<double> ahead;
  for (const RankView& rank : input.ranks)
    if (!rank.retired) ahead.push_back(rank.load_ahead);
  if (!input.config->even_last_steps || input.more_waiting || ahead.empty() || input.window.empty()) return targets;
  const double most = countable(input, ahead);
  if (surely_beyond(input, most)) return targets;
  const Backlog waiting = count_waiting(input, most);
  if (waiting.load > most) return targets;
  const double level = even_level(std::move(ahead), waiting.load);
  // A step may have no more tokens than step_tokens_max, and the last request of it needs room too.
  const double largest = kUsableTokens * static_cast<double>(input.config->step_tokens_max) * waiting.load /
                         static_cast<double>(waiting.tokens);
  for (size_t r = 0; r < targets.size(); ++r) {
    const RankView& rank = input.ranks[r];
    if (rank.retired || (rank.unfinished_step && input.more_arrive)) continue;
    const double left = level - rank.load_ahead;
    targets[r].left = left;
    if (left >= kEvenSteps * rule.target) continue;
    if (left >= rule.target) {
      targets[r].load = left <= largest ? left : std::max(left / kEvenSteps, rule.floor);
    } else {
      const bool waits = rank.unfinished_step && (left <= 0 || left < rule.floor);
      targets[r].load = waits ? 0 : std::max(left, rule.floor);
    }
  }
  return targets;
}

}  // namespace zp
