// The load that waits, the level that it fills ranks to, and each rank's part.
#include "zp/schedule/step_targets.h"

#include <algorithm>

#include "zp/schedule/node_map.h"
#include "zp/schedule/rank_fill.h"

namespace zp {
namespace {

constexpr double kEvenSteps = 2;  // from here on a rank has whole steps to take first
constexpr double kUsableTokens = 0.9;

struct Waiting {
  double load = 0;
  int64_t tokens = 0;  ///< to be computed
};

/// What waits, each block that several requests share counted once; counting stops beyond a load of `most`.
Waiting count_waiting(const PlanInput& input, double most) {
  Waiting sum;
  NodeMap<bool> counted;
  std::vector<int32_t> resident(input.ranks.size());
  for (const QueuedRequest* request : input.window) {
    input.index->match(request->path, resident);
    const int32_t reusable = RankFill::reusable_max(*request);
    int32_t blocks = std::min(*std::ranges::max_element(resident), reusable);
    while (blocks < reusable && counted.find(request->path[static_cast<size_t>(blocks)]) != nullptr) ++blocks;
    for (size_t i = static_cast<size_t>(blocks); i < request->path.size(); ++i)
      (void)counted.insert(request->path[i], true);
    const int64_t prefix = int64_t{blocks} * kBlockTokens;
    const RequestCost cost = input.cost->cost({.prefix = prefix, .suffix = request->tokens() - prefix});
    sum.load += input.config->load.load(cost);
    sum.tokens += cost.tokens;
    if (sum.load > most) break;
  }
  return sum;
}

/// The level at which `waiting` poured over what ranks have comes to rest.
double even_level(std::vector<double> ahead, double waiting) {
  std::ranges::sort(ahead);
  for (size_t below = 1; below < ahead.size(); ++below) {
    const double room = (ahead[below] - ahead[below - 1]) * static_cast<double>(below);
    if (waiting <= room) return ahead[below - 1] + waiting / static_cast<double>(below);
    waiting -= room;
  }
  return ahead.back() + waiting / static_cast<double>(ahead.size());
}

}  // namespace

std::vector<double> step_targets(const PlanInput& input) {
  const LoadRule& rule = input.config->load;
  std::vector<double> targets(input.ranks.size(), rule.target);
  std::vector<double> ahead;
  for (const RankView& rank : input.ranks)
    if (!rank.retired) ahead.push_back(rank.load_ahead);
  // More than this leaves every rank whole steps, whoever is ahead.
  const double most = kEvenSteps * rule.target * static_cast<double>(ahead.size());
  if (!input.config->even_last_steps || input.more_waiting || ahead.empty() || input.window.empty()) return targets;
  const Waiting waiting = count_waiting(input, most);
  if (waiting.load > most) return targets;
  const double level = even_level(std::move(ahead), waiting.load);
  // A step may have no more tokens than step_tokens_max, and the last request of it needs room too.
  const double largest = kUsableTokens * static_cast<double>(input.config->step_tokens_max) * waiting.load /
                         static_cast<double>(waiting.tokens);
  for (size_t r = 0; r < targets.size(); ++r) {
    const RankView& rank = input.ranks[r];
    if (rank.unfinished_step && input.more_arrive) continue;
    const double left = level - rank.load_ahead;
    if (left >= rule.target && left < kEvenSteps * rule.target) {
      targets[r] = left <= largest ? left : std::max(left / kEvenSteps, rule.floor);
    } else if (left > 0 && left < rule.target && (left >= rule.floor || !rank.unfinished_step)) {
      targets[r] = std::max(left, rule.floor);
    }
  }
  return targets;
}

}  // namespace zp
