// The choice of a rank for a request, and of the order in which requests are looked at: ours and those of other
// systems, for comparison.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace zp {

/// A request as a policy sees it.
struct RouteRequest {
  uint64_t sequence = 0;        ///< how many requests arrived before it
  int64_t tokens = 0;           ///< all of them
  int64_t uncached_tokens = 0;  ///< on the rank that has most of it
  int64_t waited_ns = 0;
  /// Its load there over what is left for a rank of all that waits, likewise what it saves there, and what is left in
  /// steps. No share of anything while the end of the queue is not in sight, or where there is one rank alone.
  double share_left = 0;
  double share_saved = 0;
  double steps_left = std::numeric_limits<double>::infinity();
  int32_t matched_elsewhere = 0;  ///< blocks: the longest match on a rank that cannot take it in this plan
  /// Passed over, it would stay behind although a rank has room for it, and no other request wants that room.
  bool last_call = false;
};

/// One rank as a policy sees it, for one request.
struct RankChoice {
  int32_t rank = 0;
  bool eligible = false;  ///< its next step is below target, and the request fits
  double load = 0;        ///< of the step that is being filled
  double load_ahead = 0;  ///< what it will have to do with this request, not counting what it has done of its steps
  double load_unfinished = 0;  ///< of its running and staged steps and the one being filled
  double request_load = 0;     ///< what this request would add there
  int32_t matched_blocks = 0;  ///< committed, pending, or promised earlier in this plan
  int64_t waiting = 0;         ///< requests that were given to it and do not run yet
  int64_t running = 0;         ///< requests of its running step
  int64_t tokens = 0;          ///< of all requests that it has not finished, reused ones too
};

/// When a request gets its rank.
enum class RouteTime : uint8_t {
  kWhenPlanned,  ///< while steps are filled, from one queue for all ranks
  kOnArrival,    ///< at once and for good: every rank has a queue of its own, as in engines behind a load balancer
};

/// Pure: the same arguments give the same answer. Thread-safe. A Scheduler asks choose() when it plans, whatever time()
/// says: who wants requests assigned on arrival asks before, and gives each rank a Scheduler (Router does).
class RoutePolicy {
 public:
  virtual ~RoutePolicy() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual RouteTime time() const noexcept = 0;
  /// A rank among the eligible ones, or -1 to pass the request over: it is asked about once more, at the end of the
  /// plan, if a rank still has room.
  [[nodiscard]] virtual int32_t choose(const RouteRequest& request, std::span<const RankChoice> ranks) const = 0;
  /// Whether requests of the same urgency are looked at by rising order_key() rather than in order of arrival.
  [[nodiscard]] virtual bool reorders() const noexcept { return false; }
  [[nodiscard]] virtual double order_key(const RouteRequest& /*request*/) const { return 0; }
  /// order_key() depends on RouteRequest::share_left from here on; what waits is counted as far as that takes.
  [[nodiscard]] virtual double long_share() const noexcept { return std::numeric_limits<double>::infinity(); }
};

/// Ours: the longest match; among equal matches, and when nothing matches, the rank that would be done first, then the
/// least unfinished load, then the lowest rank. What saves most is looked at first, since it is cached now and may not
/// be later; but before all others, the longest first, what is a good part of what is left for a rank: begun late, it
/// would end last, and other ranks would stand still. Only what saves as much goes before these: it takes little time,
/// and they could push out what it reuses. Every second that a request has waited counts as 500 tokens
/// saved, so that who saves nothing is not passed over for long. A request whose prefix lies on a rank that is full
/// waits for it if the difference is long, as long as ranks with room find other work; short prefixes, and those that
/// nobody else leaves room for, spill at once by the same rule.
class PrefixSaturationPolicy final : public RoutePolicy {
 public:
  /// A prefix is long from here on: computing it again takes a good part of a step, while a copy of a shorter one soon
  /// pays.
  static constexpr int32_t kPatienceBlocks = 64;
  /// A request is long from this share of what is left for a rank on. Smaller: longer ones come earlier, and all others
  /// later. In the last steps it is size alone that makes ranks end together.
  static constexpr double kLongShare = 1.0 / 8;
  static constexpr double kLongShareAtEnd = 1.0 / 32;
  static constexpr double kEndSteps = 2;

  [[nodiscard]] std::string_view name() const noexcept override { return "prefix-saturation"; }
  [[nodiscard]] RouteTime time() const noexcept override { return RouteTime::kWhenPlanned; }
  [[nodiscard]] int32_t choose(const RouteRequest& request, std::span<const RankChoice> ranks) const override;
  [[nodiscard]] bool reorders() const noexcept override { return true; }
  [[nodiscard]] double order_key(const RouteRequest& request) const override;
  [[nodiscard]] double long_share() const noexcept override { return kLongShare; }
};

/// Each rank in turn; the next eligible one where that one is not.
class RoundRobinPolicy final : public RoutePolicy {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "round-robin"; }
  [[nodiscard]] RouteTime time() const noexcept override { return RouteTime::kOnArrival; }
  [[nodiscard]] int32_t choose(const RouteRequest& request, std::span<const RankChoice> ranks) const override;
};

/// vLLM's score for data-parallel ranks: least 4 x waiting + running requests, whatever their lengths and prefixes.
class CountPolicy final : public RoutePolicy {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "vllm"; }
  [[nodiscard]] RouteTime time() const noexcept override { return RouteTime::kOnArrival; }
  [[nodiscard]] int32_t choose(const RouteRequest& request, std::span<const RankChoice> ranks) const override;
};

/// Least tokens unfinished: lengths, but no prefixes.
class LeastTokensPolicy final : public RoutePolicy {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "least-tokens"; }
  [[nodiscard]] RouteTime time() const noexcept override { return RouteTime::kOnArrival; }
  [[nodiscard]] int32_t choose(const RouteRequest& request, std::span<const RankChoice> ranks) const override;
};

/// PrefillOnly (SOSP 2025) behind vLLM's score: a rank looks first at what has fewest uncached tokens, less 500 for
/// each second waited. Estimated again in every plan, so that what was computed since counts.
class ShortestPrefillPolicy final : public RoutePolicy {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "shortest-prefill"; }
  [[nodiscard]] RouteTime time() const noexcept override { return RouteTime::kOnArrival; }
  [[nodiscard]] int32_t choose(const RouteRequest& request, std::span<const RankChoice> ranks) const override;
  [[nodiscard]] bool reorders() const noexcept override { return true; }
  [[nodiscard]] double order_key(const RouteRequest& request) const override;
};

/// Null if there is no policy of this name.
[[nodiscard]] std::unique_ptr<const RoutePolicy> make_policy(std::string_view name);
/// In the order of the classes above.
[[nodiscard]] std::span<const std::string_view> policy_names() noexcept;

}  // namespace zp
