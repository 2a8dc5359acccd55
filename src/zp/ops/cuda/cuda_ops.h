// All operations on one GPU, in bf16.
#pragma once

#include <string>

#include "zp/device/cuda/cuda_device.h"
#include "zp/ops/cuda/choices.h"
#include "zp/ops/cuda/cuda_packing.h"
#include "zp/ops/cuda/linear.h"
#include "zp/ops/cuda/scratch.h"
#include "zp/ops/cuda/staging.h"
#include "zp/ops/factory.h"
#include "zp/ops/ops.h"

namespace zp::cuda {

/// Scratch memory is taken once, from the limits. Metadata is read when an operation is issued and travels through the
/// staging ring; no operation makes the host wait.
class CudaOps final : public Ops {
 public:
  CudaOps(CudaDevice& device, const OpsLimits& limits, const Choices& choices = {});

  [[nodiscard]] DType activation_dtype() const noexcept override { return DType::kBf16; }
  [[nodiscard]] std::string_view description() const noexcept override { return description_; }

  [[nodiscard]] PackedMatrix pack_matrix(std::span<const ConstTensorView> parts) override;
  [[nodiscard]] size_t expert_blob_bytes(const ExpertSize& size) const override;
  void pack_expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
                   std::span<std::byte> blob) const override;
  [[nodiscard]] DevicePacking* device_packing() noexcept override { return &packing_; }
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

  /// Device memory that such an object takes beside weights.
  [[nodiscard]] static size_t scratch_bytes(const OpsLimits& limits);

 private:
  template <typename T>
  [[nodiscard]] T* scratch(size_t offset) const {
    return reinterpret_cast<T*>(scratch_.data() + offset);
  }

  // Parts of moe(), within its act.
  void sort_assignments(const MoeArgs& args, const CudaStream& on);
  void sum_slots(const MoeArgs& args, const CudaStream& on);

  CudaDevice& device_;
  OpsLimits limits_;
  Choices choices_;
  ScratchLayout layout_;
  Buffer scratch_;
  StagingRing ring_;
  Linear linear_;
  CudaPacking packing_;
  std::string description_;
};

}  // namespace zp::cuda
