// How far each rank's next step is filled: to the target, or evenly where little is left. Used by planner.cpp alone.
#pragma once

#include <limits>
#include <vector>

#include "zp/schedule/planner.h"

namespace zp {

/// How far a rank's next step is filled.
struct StepTarget {
  /// 0: the rank is busy, and has what is left for it or soon will: it gets nothing before it is idle.
  double load = 0;
  /// What is left for the rank of all that waits; infinite while the end of the queue is not in sight.
  double left = std::numeric_limits<double>::infinity();
};

/// [ranks] The load is the target of the LoadRule, except where all that waits is in the window and can be counted:
/// then what is left for a rank is what brings all ranks to the same end, given what they still have to do.
/// - More than a step is left for it, but less than two: it goes as one step, not as a full one and a rest that takes
///   as long when its transfer is not hidden.
/// - Less than a step is left for it, and it is idle or that is more than what a transfer takes anyway
///   (LoadRule::floor): it takes its even share, no less than that.
/// - It is busy, and less than a transfer is left for it, or nothing: others get that, or it does once it is idle.
/// While requests go on arriving, what waits is not the end, and only idle ranks are treated so. Then a busy rank that
/// has more than two steps to do (a long request) gets nothing before it has done most of that: if there are others,
/// one of them may start sooner. As much is counted as could be less than two steps a rank beyond the one that has most
/// to do, and as makes the longest request RoutePolicy::long_share(). O(ranks log ranks + blocks of the requests
/// counted).
[[nodiscard]] std::vector<StepTarget> step_targets(const PlanInput& input);

/// The level at which `waiting` poured over what ranks have comes to rest. Requires a rank.
[[nodiscard]] double even_level(std::vector<double> ahead, double waiting);

}  // namespace zp
