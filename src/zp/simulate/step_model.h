// How long a step takes on a modelled device: compute at achieved rates, and what of the transfers it cannot hide.
#pragma once

#include <cstdint>

#include "zp/schedule/saturation.h"

namespace zp {

struct StepModel {
  int32_t layers = 0;
  int32_t streamed_layers = 0;  ///< layers whose experts must arrive first
  double transfer_seconds = 0;  ///< t_EP of one of them
  OperationRates rates{};
  double expert_read_seconds =
      0;  ///< a layer's experts are read from device memory once a step, however few its tokens
};

struct StepTime {
  int64_t compute_ns = 0;
  int64_t exposed_ns = 0;  ///< compute stood still for experts
  [[nodiscard]] int64_t total_ns() const noexcept { return compute_ns + exposed_ns; }
};

/// A layer's experts travel while the layer before computes; what is longer than that is exposed. At least 1 ns.
[[nodiscard]] StepTime step_time(const StepModel& model, const RequestCost& cost);

}  // namespace zp
