// The forward pass of a rank that works in lock-step with others: DP or TP attention, EP or TP experts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "zp/device/device.h"
#include "zp/model/expert_source.h"
#include "zp/model/forward.h"
#include "zp/ops/ops.h"
#include "zp/parallel/collectives.h"
#include "zp/parallel/expert_exchange.h"
#include "zp/parallel/group_layout.h"
#include "zp/parallel/rounds.h"
#include "zp/tensor/tensor.h"

namespace zp {

/// The pieces of Forward, with a collective wherever a rank needs what others have. Owned and called by the rank's
/// thread alone. A token's result depends on its sequence, the strategy and the number of ranks, and on nothing else.
class GroupForward final {
 public:
  /// What it borrows; all of it outlives it.
  struct Parts {
    Device& device;
    Ops& ops;
    const ModelShape& model;  ///< the whole model
    const ModelShape& shape;  ///< of the rank
    GroupLayout layout;
    Forward& forward;  ///< of the rank's shape and weights, with chunks of `chunk_tokens`
    ExpertSource& experts;
    Collectives& collectives;
  };
  /// `chunk_tokens`: the most rows of a round, over all ranks.
  GroupForward(const Parts& parts, int64_t chunk_tokens);

  /// Issues this rank's part of a step on `stream` and waits for it. `tokens`: [ranks] of each rank's step, the same on
  /// all ranks; with TP attention they all have this very step, but for the head rows. After a throw the group is
  /// aborted, and this rank must not run again.
  [[nodiscard]] ForwardResult run(Stream& stream, const ForwardStep& step, std::span<const int64_t> tokens);

  /// Bytes of buffers besides the Forward's.
  [[nodiscard]] static size_t buffer_bytes(const ModelShape& shape, const GroupLayout& layout, DType activation,
                                           int64_t chunk_tokens);

 private:
  void issue(Stream& stream, const ForwardStep& step, ForwardResult& result);
  void begin_layer(Stream& stream, const ForwardStep& step, int32_t layer, const Round& round);
  void end_attention(Stream& stream, int32_t layer, const Round& round);
  struct FeedForwardPart {
    const ForwardStep& step;
    int32_t layer;
    const Round& round;
    std::span<const std::byte* const> experts;  // of a dense layer: none
  };
  void feed_forward(Stream& stream, const FeedForwardPart& part);
  void sum_own(Stream& stream, int32_t layer, const Round& round);
  void gather_normed(Stream& stream, int32_t layer, const Round& round);

  Parts parts_;
  int64_t chunk_tokens_;
  std::optional<ExpertExchange> exchange_;
  Tensor wire_;                // [C, H] A, unless A is f32: partial sums as they travel
  std::vector<Round> rounds_;  // of the latest step: other ranks read its counts while they are in a collective
  std::vector<LayerMetadata> metadata_;  // likewise kept, for acts still queued when something throws
};

}  // namespace zp
