// The fast operations of the CPU.
#pragma once

#include <string>

#include "zp/device/cpu/cpu_device.h"
#include "zp/ops/cpu/head.h"
#include "zp/ops/cpu/moe.h"
#include "zp/ops/cpu/workers.h"
#include "zp/ops/factory.h"
#include "zp/ops/ops.h"

namespace zp::cpu {

/// Vector kernels chosen at run time. Work issued on the stream runs on its thread and the device's pool, so one
/// stream at a time may run operations of one object.
class CpuOps final : public Ops {
 public:
  /// The machine must have `isa`.
  CpuOps(CpuDevice& device, Isa isa, DType activation, const OpsLimits& limits);

  [[nodiscard]] static size_t scratch_bytes(int32_t threads, DType activation, const OpsLimits& limits);

  [[nodiscard]] DType activation_dtype() const noexcept override { return workers_.activation(); }
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
  Workers workers_;
  Moe moe_;
  Head head_;
  std::string description_;
};

}  // namespace zp::cpu
