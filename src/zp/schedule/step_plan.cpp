// Names of reasons.
#include "zp/schedule/step_plan.h"

namespace zp {

std::string_view to_string(StopReason reason) noexcept {
  switch (reason) {
    case StopReason::kTarget: return "target";
    case StopReason::kQueueEnded: return "queue_ended";
    case StopReason::kLookAhead: return "look_ahead";
    case StopReason::kCapacity: return "capacity";
    case StopReason::kDeadline: return "deadline";
  }
  return "unknown";
}

}  // namespace zp
