// Where a layer's experts come from: the interface between the forward pass and AsyncEP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "zp/device/device.h"

namespace zp {

/// Gives the forward pass a layer's experts. One thread, that of the rank, calls it; layers come in rising order, each
/// acquired and released once a step, and after the last MoE layer the first one of the next step follows.
class ExpertSource {
 public:
  virtual ~ExpertSource() = default;
  ExpertSource(const ExpertSource&) = delete;
  ExpertSource& operator=(const ExpertSource&) = delete;

  /// For people: "resident".
  [[nodiscard]] virtual std::string_view description() const noexcept = 0;
  /// One pointer per expert to its packed blob, in device memory. Makes `compute` wait until they have arrived; does
  /// not block the host. Valid for acts issued on `compute` before release().
  [[nodiscard]] virtual std::span<const std::byte* const> acquire(int32_t layer, Stream& compute) = 0;
  /// Every act that reads the layer's experts has been issued on `compute`.
  virtual void release(int32_t layer, Stream& compute) = 0;

 protected:
  ExpertSource() = default;
};

}  // namespace zp
