// Measures, before a rank runs steps, how fast a layer's parts compute and how fast experts come.
#pragma once

#include "zp/base/clock.h"
#include "zp/expert/placement.h"
#include "zp/expert/step_experts.h"
#include "zp/model/forward.h"
#include "zp/schedule/load_controller.h"
#include "zp/shape/model_shape.h"

namespace zp {

/// What is measured with; all of it is idle.
struct MeasureParts {
  const ModelShape& shape;
  const ForwardLimits& limits;
  Forward& forward;
  StepExperts& experts;
  Stream& stream;
};
/// Times attention, the dense products and the experts of one layer on made-up tokens, as many as take a few tens of
/// milliseconds and fit into a chunk, then copies over the links that experts come over. No experts are fetched: the
/// first layer of them is complete on every rank. Uses only memory that the rank has. Well below a second unless a
/// single copy, or 64 tokens, take long. Blocks; throws what a device throws.
[[nodiscard]] MeasuredRank measure_rank(const MeasureParts& parts);

/// t_EP: how long a layer's experts take to come, with these links.
[[nodiscard]] LayerTransfer transfer_of(const Placement& placement, uint64_t blob_bytes, const LinkRates& links,
                                        int32_t window);

}  // namespace zp
