// How long a step takes on a modelled device: compute at achieved rates, and what of the transfers it cannot hide.
#pragma once

#include <cstdint>
#include <vector>

#include "zp/schedule/saturation.h"
#include "zp/shape/ring_timeline.h"

namespace zp {

struct StepModel {
  int32_t layers = 0;
  int32_t streamed_layers = 0;  ///< layers whose experts must arrive first: the last ones
  double transfer_seconds = 0;  ///< t_EP of one of them
  OperationRates rates{};
  double expert_read_seconds =
      0;                       ///< a layer's experts are read from device memory once a step, however few its tokens
  int32_t slots = 2;           ///< layers that may have arrived before they are needed
  double step_seconds = 0;     ///< of a step besides its layers and heads
  double request_seconds = 0;  ///< of each request's output head
};

struct StepTime {
  int64_t compute_ns = 0;
  int64_t exposed_ns = 0;  ///< compute stood still for experts
  [[nodiscard]] int64_t total_ns() const noexcept { return compute_ns + exposed_ns; }
};

/// One rank's steps, each with what the ones before left in its slots. They are full when the first one begins.
class RankTimeline final {
 public:
  explicit RankTimeline(const StepModel& model);

  /// The next step, from `start_ns`, no earlier than the last one ended. At least 1 ns. Throws kInvalidArgument if it
  /// ends too late for the clock.
  StepTime run(int64_t start_ns, const RequestCost& cost, int64_t requests);

 private:
  StepModel model_;
  RingTimeline ring_;
  std::vector<TimedLayer> layers_;
};

}  // namespace zp
