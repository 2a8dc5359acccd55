// Scores of ranks and requests.
#include "zp/schedule/policy.h"

#include <array>
#include <tuple>

namespace zp {
namespace {

// The eligible rank with the smallest score; the first of equals.
template <typename Score>
int32_t least(std::span<const RankChoice> ranks, Score&& score) {
  const RankChoice* best = nullptr;
  for (const RankChoice& choice : ranks)
    if (choice.eligible && (best == nullptr || score(choice) < score(*best))) best = &choice;
  return best == nullptr ? -1 : best->rank;
}

int64_t count_score(const RankChoice& choice) { return 4 * choice.waiting + choice.running; }

// What a request has waited for, as tokens by which it comes sooner.
double waited_tokens(const RouteRequest& request) {
  constexpr double kTokensPerSecond = 500;
  return kTokensPerSecond * static_cast<double>(request.waited_ns) * 1e-9;
}

}  // namespace

int32_t PrefixSaturationPolicy::choose(const RouteRequest& request, std::span<const RankChoice> ranks) const {
  const RankChoice* best = nullptr;
  for (const RankChoice& choice : ranks) {
    if (!choice.eligible) continue;
    const bool better =
        best == nullptr || choice.matched_blocks > best->matched_blocks ||
        (choice.matched_blocks == best->matched_blocks &&
         std::tuple(choice.load_ahead, choice.load_unfinished) < std::tuple(best->load_ahead, best->load_unfinished));
    if (better) best = &choice;
  }
  if (best == nullptr) return -1;
  const bool waits = !request.last_call && request.matched_elsewhere - best->matched_blocks >= kPatienceBlocks;
  return waits ? -1 : best->rank;
}

double PrefixSaturationPolicy::order_key(const RouteRequest& request) const {
  constexpr double kBeforeOthers = 1e9;  // more tokens than a request has
  constexpr double kBeforeLong = 1e13;   // and no share exceeds the number of ranks by far
  const double from = request.steps_left < kEndSteps ? kLongShareAtEnd : kLongShare;
  if (request.share_saved >= from) return -kBeforeLong * (1 + request.share_saved);
  if (request.share_left >= from) return -kBeforeOthers * (1 + request.share_left);
  return static_cast<double>(request.uncached_tokens - request.tokens) - waited_tokens(request);
}

int32_t RoundRobinPolicy::choose(const RouteRequest& request, std::span<const RankChoice> ranks) const {
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankChoice& choice = ranks[(request.sequence + i) % ranks.size()];
    if (choice.eligible) return choice.rank;
  }
  return -1;
}

int32_t CountPolicy::choose(const RouteRequest& /*request*/, std::span<const RankChoice> ranks) const {
  return least(ranks, count_score);
}

int32_t LeastTokensPolicy::choose(const RouteRequest& /*request*/, std::span<const RankChoice> ranks) const {
  return least(ranks, [](const RankChoice& choice) { return choice.tokens; });
}

int32_t ShortestPrefillPolicy::choose(const RouteRequest& /*request*/, std::span<const RankChoice> ranks) const {
  return least(ranks, count_score);
}

double ShortestPrefillPolicy::order_key(const RouteRequest& request) const {
  return static_cast<double>(request.uncached_tokens) - waited_tokens(request);
}

std::unique_ptr<const RoutePolicy> make_policy(std::string_view name) {
  if (name == "prefix-saturation") return std::make_unique<PrefixSaturationPolicy>();
  if (name == "round-robin") return std::make_unique<RoundRobinPolicy>();
  if (name == "vllm") return std::make_unique<CountPolicy>();
  if (name == "least-tokens") return std::make_unique<LeastTokensPolicy>();
  if (name == "shortest-prefill") return std::make_unique<ShortestPrefillPolicy>();
  return nullptr;
}

std::span<const std::string_view> policy_names() noexcept {
  static constexpr std::array<std::string_view, 5> kNames = {"prefix-saturation", "round-robin", "vllm", "least-tokens",
                                                             "shortest-prefill"};
  return kNames;
}

}  // namespace zp
