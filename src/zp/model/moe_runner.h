// How a layer's experts are applied to its tokens: the interface between the forward pass and whoever brings experts to
// tokens, or tokens to experts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "zp/device/device.h"
#include "zp/model/expert_source.h"
#include "zp/ops/ops.h"
#include "zp/tensor/tensor_view.h"

namespace zp {

/// Routed tokens of one chunk, and where their experts' result goes. The memory is used again for the next chunk.
struct MoeRows {
  ConstTensorView x;        // [C, H] A
  ConstTensorView ids;      // [C, k] i32
  ConstTensorView weights;  // [C, k] f32
  TensorView out;           // [C, H] f32
  ResidualNormArgs then{};  // as MoeArgs::then; of run() alone

  [[nodiscard]] MoeArgs args(std::span<const std::byte* const> experts, const ExpertSize& size) const {
    return {.x = x, .ids = ids, .weights = weights, .experts = experts, .size = size, .out = out, .then = then};
  }
};

/// Called by the rank's thread. Of each MoE layer of a step, in rising order: begin_layer(), run() for each chunk,
/// end_layer(). All issue acts on `stream`, the rank's compute stream.
class MoeRunner {
 public:
  virtual ~MoeRunner() = default;
  MoeRunner(const MoeRunner&) = delete;
  MoeRunner& operator=(const MoeRunner&) = delete;

  /// `first` has been routed: the step's first chunk, which is also its last if the step has no more tokens. Makes
  /// `stream` wait until experts are there. May block the host.
  virtual void begin_layer(Stream& stream, int32_t layer, const MoeRows& first) = 0;
  /// As Ops::moe().
  virtual void run(Stream& stream, int32_t layer, const MoeRows& rows) = 0;
  /// All chunks of the layer have been given to run().
  virtual void end_layer(Stream& stream, int32_t layer) = 0;

 protected:
  MoeRunner() = default;
};

/// Computes with all experts of a layer, which a source has brought here.
class SourceMoe final : public MoeRunner {
 public:
  /// Both outlive it.
  SourceMoe(Ops& ops, ExpertSource& source, const ExpertSize& size) : ops_(ops), source_(source), size_(size) {}

  void begin_layer(Stream& stream, int32_t layer, const MoeRows& /*first*/) override {
    experts_ = source_.acquire(layer, stream);
  }
  void run(Stream& stream, int32_t /*layer*/, const MoeRows& rows) override {
    ops_.moe(stream, rows.args(experts_, size_));
  }
  void end_layer(Stream& stream, int32_t layer) override { source_.release(layer, stream); }

 private:
  Ops& ops_;
  ExpertSource& source_;
  ExpertSize size_;
  std::span<const std::byte* const> experts_;  // of the layer between begin and end
};

}  // namespace zp
