// Experts that all lie in the rank's own memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "zp/device/device.h"
#include "zp/expert/expert_store.h"
#include "zp/model/expert_source.h"
#include "zp/model/weights.h"

namespace zp {

/// Every expert of every MoE layer, used in place. acquire() never waits.
class ResidentExperts final : public ExpertSource {
 public:
  /// Reads and packs all experts with `threads` threads. Blocks; throws what the reader throws.
  ResidentExperts(const ModelShape& shape, const ExpertReader& reader, Device& device, int32_t threads);

  [[nodiscard]] std::string_view description() const noexcept override { return "resident"; }
  [[nodiscard]] std::span<const std::byte* const> acquire(int32_t layer, Stream& compute) override;
  void release(int32_t /*layer*/, Stream& /*compute*/) override {}
  [[nodiscard]] std::vector<LayerWait> take_waits() override { return {}; }
  void set_busy(bool /*busy*/) override {}
  void abandon(const std::exception_ptr& /*failure*/) override {}

 private:
  std::unique_ptr<ExpertStore> store_;
  std::vector<std::vector<const std::byte*>> layers_;  // [layer][E]; empty for a dense layer
};

}  // namespace zp
