// The specification as a backend: plain loops, run on the stream's own thread.
#pragma once

#include <string>

#include "zp/ops/factory.h"
#include "zp/ops/ops.h"

namespace zp::reference {

/// Slow and obviously right. Keeps no state, so one object may serve several streams.
class ReferenceOps final : public Ops {
 public:
  /// Packed matrices are allocated on `device`.
  ReferenceOps(Device& device, DType activation);

  [[nodiscard]] DType activation_dtype() const noexcept override { return activation_; }
  [[nodiscard]] std::string_view description() const noexcept override { return description_; }

  [[nodiscard]] PackedMatrix pack_matrix(std::span<const ConstTensorView> parts) override;
  [[nodiscard]] size_t expert_blob_bytes(const ExpertSize& size) const override;
  void pack_expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
                   std::span<std::byte> blob) const override;
  [[nodiscard]] PackedMatrix draw_matrix(std::span<const DrawnMatrix> parts) override;

  void draw(Stream& stream, const DrawArgs& args) override;
  void draw_expert(Stream& stream, const DrawnExpert& expert, std::byte* blob) override;
  void embed(Stream& stream, const EmbedArgs& args) override;
  void residual_norm(Stream& stream, const ResidualNormArgs& args) override;
  void linear(Stream& stream, const LinearArgs& args) override;
  void rope(Stream& stream, const RopeArgs& args) override;
  void attention(Stream& stream, const AttentionArgs& args) override;
  void store_kv(Stream& stream, const StoreKvArgs& args) override;
  void route(Stream& stream, const RouteArgs& args) override;
  void moe(Stream& stream, const MoeArgs& args) override;
  void swiglu(Stream& stream, const SwigluArgs& args) override;
  void gather_rows(Stream& stream, const GatherRowsArgs& args) override;
  void convert(Stream& stream, const ConvertArgs& args) override;
  void combine(Stream& stream, const CombineArgs& args) override;
  void head(Stream& stream, const HeadArgs& args) override;

 private:
  Device& device_;
  DType activation_;
  std::string description_;
};

/// Bytes of packed weights: the elements side by side, a blob padded to its alignment.
[[nodiscard]] size_t matrix_bytes(DType activation, int64_t n, int64_t k);
[[nodiscard]] size_t expert_bytes(DType activation, const ExpertSize& size);

}  // namespace zp::reference
