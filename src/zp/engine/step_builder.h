// Turns a step plan into what the forward pass takes: rows, positions, runs of reused keys and values.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "zp/model/forward.h"
#include "zp/schedule/step_plan.h"

namespace zp {

/// What the builder needs of a request. Borrowed for one call.
struct RequestView {
  std::span<const int32_t> tokens;
  std::span<const int32_t> candidates;
};

/// `find` gives the request of an id. Neighbouring blocks become one run. One head row a segment, its last token.
[[nodiscard]] ForwardStep build_step(const StepPlan& plan, const std::function<RequestView(uint64_t)>& find);

}  // namespace zp
