// How far each rank's next step is filled: to the target, or evenly where little is left. Used by planner.cpp alone.
#pragma once

#include <vector>

#include "zp/schedule/planner.h"

namespace zp {

/// [ranks] The load that a rank's next step is filled to. It is the target of the LoadRule, except where all that waits
/// is in the window and comes to less than two steps a rank, counted with what ranks still have to do:
/// - what is left for a rank is more than a step but less than two: it goes as one step, not as a full one and a rest
///   that takes as long when its transfer is not hidden;
/// - less than a step is left for it, and it is idle or that is more than what a transfer takes anyway
///   (LoadRule::floor): it takes its even share, no less than that.
/// While requests go on arriving, what waits is not the end, and only idle ranks are treated so.
/// What is left for a rank is what brings all ranks to the same end. O(ranks log ranks + blocks of the requests
/// counted).
[[nodiscard]] std::vector<double> step_targets(const PlanInput& input);

}  // namespace zp
