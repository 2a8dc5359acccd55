// The forward pass of one stage of a pipeline: its layers, micro-batch after micro-batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zp/device/device.h"
#include "zp/model/forward.h"
#include "zp/ops/ops.h"
#include "zp/parallel/collectives.h"
#include "zp/shape/model_shard.h"
#include "zp/tensor/tensor.h"

namespace zp {

/// The first stage embeds, the last computes the logits, and between them travels the residual, in type A. While a
/// stage works on one micro-batch, the next stage works on the one before. Owned and called by the rank's thread alone.
class PipelineForward final {
 public:
  /// What it borrows; all of it outlives it.
  struct Parts {
    Device& device;
    Ops& ops;
    IndexRange layers;  ///< of the model that this stage has
    int64_t hidden = 0;
    Forward& forward;  ///< of the stage's shape and weights
    Collectives& collectives;
  };
  /// `tokens`: the most of a micro-batch.
  PipelineForward(const Parts& parts, int64_t tokens);

  /// Runs the micro-batches, the same ones on every stage, which live until then; waits for the stream. On the last
  /// stage one result for each, on the others empty ones. After a throw the group is aborted, and this rank must not
  /// run again.
  [[nodiscard]] std::vector<ForwardResult> run(Stream& stream, std::span<const ForwardStep* const> micro_batches);

  [[nodiscard]] static size_t buffer_bytes(int64_t hidden, DType activation, int64_t tokens);

 private:
  [[nodiscard]] bool is_first() const { return parts_.collectives.rank() == 0; }
  [[nodiscard]] bool is_last() const { return parts_.collectives.rank() + 1 == parts_.collectives.ranks(); }
  void run_one(Stream& stream, const ForwardStep& step, std::span<const LayerMetadata> metadata, ForwardResult& result);

  Parts parts_;
  Tensor wire_;                                       // [T, H] A
  std::vector<std::vector<LayerMetadata>> metadata_;  // of the latest run, for acts still queued when something throws
};

}  // namespace zp
