// A CPU that takes as long as a modelled device: real results, modelled time.
#pragma once

#include <memory>
#include <string>

#include "zp/device/cpu/cpu_device.h"
#include "zp/ops/forwarded_ops.h"

namespace zp::cpu {

/// How fast the modelled device is.
struct Pace {
  double flops_per_second = 0;
  int64_t attention_keys = 0;  ///< that each token sees besides its own, in time alone
};

/// Runs each operation of `inner`, and then sleeps until its matrix products would have been done at the given rate,
/// which all such objects of one device share. Never spins, so that many such ranks share few cores; what is claimed
/// about time is tested on these. Used by one stream's thread at a time.
class PacedOps final : public ForwardedOps {
 public:
  PacedOps(CpuDevice& device, std::unique_ptr<Ops> inner, const Pace& pace);

  [[nodiscard]] std::string_view description() const noexcept override { return description_; }
  void linear(Stream& stream, const LinearArgs& args) override;
  void attention(Stream& stream, const AttentionArgs& args) override;
  void moe(Stream& stream, const MoeArgs& args) override;
  void head(Stream& stream, const HeadArgs& args) override;

 private:
  template <typename Issue>
  void pace(Stream& stream, int64_t flops, Issue&& issue);

  CpuDevice& device_;
  // The stream's thread: when the last operation ended, and how much later than modelled.
  int64_t ended_ns_ = 0;
  int64_t late_ns_ = 0;
  Pace pace_;
  std::string description_;
};

}  // namespace zp::cpu
