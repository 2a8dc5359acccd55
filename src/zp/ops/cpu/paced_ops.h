// A CPU that takes as long as a modelled device: real results, modelled time.
#pragma once

#include <memory>
#include <string>

#include "zp/device/cpu/cpu_device.h"
#include "zp/ops/ops.h"

namespace zp::cpu {

/// How fast the modelled device is.
struct Pace {
  double flops_per_second = 0;
  int64_t attention_keys = 0;  ///< that each token sees besides its own, in time alone
};

/// Runs each operation of `inner`, and then sleeps until its matrix products would have been done at the given rate,
/// which all such objects of one device share. Never spins, so that many such ranks share few cores; what is claimed
/// about time is tested on these. Used by one stream's thread at a time.
class PacedOps final : public Ops {
 public:
  PacedOps(CpuDevice& device, std::unique_ptr<Ops> inner, const Pace& pace);

  [[nodiscard]] DType activation_dtype() const noexcept override { return inner_->activation_dtype(); }
  [[nodiscard]] std::string_view description() const noexcept override { return description_; }

  [[nodiscard]] PackedMatrix pack_matrix(std::span<const ConstTensorView> parts) override {
    return inner_->pack_matrix(parts);
  }
  [[nodiscard]] size_t expert_blob_bytes(const ExpertSize& size) const override {
    return inner_->expert_blob_bytes(size);
  }
  void pack_expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
                   std::span<std::byte> blob) const override {
    inner_->pack_expert(gate, up, down, blob);
  }

  void embed(Stream& stream, const EmbedArgs& args) override { inner_->embed(stream, args); }
  void residual_norm(Stream& stream, const ResidualNormArgs& args) override { inner_->residual_norm(stream, args); }
  void linear(Stream& stream, const LinearArgs& args) override;
  void rope(Stream& stream, const RopeArgs& args) override { inner_->rope(stream, args); }
  void attention(Stream& stream, const AttentionArgs& args) override;
  void store_kv(Stream& stream, const StoreKvArgs& args) override { inner_->store_kv(stream, args); }
  void route(Stream& stream, const RouteArgs& args) override { inner_->route(stream, args); }
  void moe(Stream& stream, const MoeArgs& args) override;
  void swiglu(Stream& stream, const SwigluArgs& args) override { inner_->swiglu(stream, args); }
  void gather_rows(Stream& stream, const GatherRowsArgs& args) override { inner_->gather_rows(stream, args); }
  void convert(Stream& stream, const ConvertArgs& args) override { inner_->convert(stream, args); }
  void combine(Stream& stream, const CombineArgs& args) override { inner_->combine(stream, args); }
  void head(Stream& stream, const HeadArgs& args) override;

 private:
  template <typename Issue>
  void pace(Stream& stream, int64_t flops, Issue&& issue);

  CpuDevice& device_;
  std::unique_ptr<Ops> inner_;
  // The stream's thread: when the last operation ended, and how much later than modelled.
  int64_t ended_ns_ = 0;
  int64_t late_ns_ = 0;
  Pace pace_;
  std::string description_;
};

}  // namespace zp::cpu
