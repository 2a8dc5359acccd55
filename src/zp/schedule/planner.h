// One planning pass: from what waits and what is cached to the next step of every rank that has room for one. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "zp/cache/prefix_index.h"
#include "zp/schedule/config.h"
#include "zp/schedule/policy.h"
#include "zp/schedule/request_queue.h"
#include "zp/schedule/step_plan.h"

namespace zp {

/// What a plan needs to know of a rank.
struct RankView {
  bool open = false;                          ///< it can be given another step
  bool retired = false;                       ///< it will never be given one
  double load_unfinished = 0;                 ///< of the steps it was given and has not finished
  double load_ahead = 0;                      ///< of these, what it has yet to do, by the pace of its last step
  double load_overdue = 0;                    ///< what it could have done since its first step should have ended
  int64_t staged_requests = 0;                ///< of these steps but the first
  int64_t running_requests = 0;               ///< of the first
  int64_t tokens_unfinished = 0;              ///< of all these requests, reused ones too
  std::optional<uint64_t> unfinished_step{};  ///< the last of them
};

/// Everything that a plan depends on. Borrowed for the call.
struct PlanInput {
  std::span<const Waiting* const> window;  ///< in order; interned, and matched with the open ranks
  bool more_waiting = false;               ///< requests beyond the window
  bool more_arrive = false;                ///< some did since the last step was handed out
  bool first_is_due = false;               ///< the first of the window was passed over too often: it stays first
  /// The open ranks are idle, and what waits was left over by a plan for all: a request may rather wait for a busy
  /// rank.
  bool rest = false;
  const PrefixIndex* index = nullptr;  ///< its tree has references from the window's requests alone
  std::span<const RankView> ranks;
  const SchedulerConfig* config = nullptr;
  const CostModel* cost = nullptr;
  const RoutePolicy* policy = nullptr;
  int64_t now_ns = 0;
  int64_t pressing_ns = 0;  ///< deadlines up to here press
};

/// A segment before its kept blocks have numbers.
struct PlannedSegment {
  const QueuedRequest* request = nullptr;
  int32_t begin = 0;
  int32_t end = 0;
  int64_t row = 0;
  std::vector<BlockSource> prefix{};
  int32_t fresh_blocks = 0;  ///< blocks from begin / kBlockTokens on that the rank has only through this segment
  int32_t keep = 0;          ///< how many of those, from the first on, are to be kept, and
  int32_t keep_wanted = 0;   ///< how many of these are read in this step or wanted by requests that wait
};

/// One rank's next step, before it is committed.
struct PlannedStep {
  int32_t rank = 0;
  std::vector<PlannedSegment> segments;
  int64_t tokens = 0;
  double load = 0;
  double target = 0;  ///< load that it was filled to
  RequestCost cost;
  StopReason filled_by = StopReason::kQueueEnded;
  std::optional<uint64_t> relies_on{};
};

/// The steps of the open ranks, in order of ranks; a rank that got nothing has no segments.
struct BatchPlan {
  std::vector<PlannedStep> steps;
};

/// The ranks that can be given another step.
[[nodiscard]] RankSet open_ranks(std::span<const RankView> ranks);

/// Makes `waiting.match` the longest match of its reusable blocks on these ranks.
void find_match(Waiting& waiting, const PrefixIndex& index, const RankSet& ranks);
/// The same, quicker where it still is.
inline void update_match(Waiting& waiting, const PrefixIndex& index, const RankSet& ranks) {
  if (!waiting.matched || !index.holds(waiting.match, ranks)) find_match(waiting, index, ranks);
}

/// Deterministic, and changes nothing. Each request of the window, in its order (or, among those of one priority that
/// press alike, in the policy's), goes to the rank that the policy chooses among the
/// open ranks whose step is below target and has room for it, or stays. A request reuses the longest run of its blocks
/// that the rank holds, expects, or computes earlier in the same step, but always computes at least its last token.
[[nodiscard]] BatchPlan plan_batch(const PlanInput& input);

}  // namespace zp
