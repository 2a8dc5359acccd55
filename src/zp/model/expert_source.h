// Where a layer's experts come from: the interface between the forward pass and AsyncEP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "zp/device/device.h"

namespace zp {

/// What the compute stream waited for one layer's experts.
struct LayerWait {
  int32_t layer = 0;
  int64_t exposed_ns = 0;    ///< how long it stood still
  int64_t peer_wait_ns = 0;  ///< of this, waiting for another rank rather than for a link
};

/// Gives the forward pass a layer's experts. One thread, that of the rank, calls it; layers come in rising order, each
/// acquired and released once a step, and after the last MoE layer the first one of the next step follows.
class ExpertSource {
 public:
  virtual ~ExpertSource() = default;
  ExpertSource(const ExpertSource&) = delete;
  ExpertSource& operator=(const ExpertSource&) = delete;

  /// For people: "resident".
  [[nodiscard]] virtual std::string_view description() const noexcept = 0;
  /// One pointer per expert to its packed blob, in device memory. Makes `compute` wait until they have arrived. Blocks
  /// the host only while it is not yet known where they come from (hybrid). Valid for acts issued on `compute` before
  /// release().
  [[nodiscard]] virtual std::span<const std::byte* const> acquire(int32_t layer, Stream& compute) = 0;
  /// Every act that reads the layer's experts has been issued on `compute`.
  virtual void release(int32_t layer, Stream& compute) = 0;

  /// Waits of the layers acquired since the last call, in their order; those that arrive only. Called when the acts on
  /// `compute` have run.
  [[nodiscard]] virtual std::vector<LayerWait> take_waits() = 0;
  /// Whether the rank has a step to run. Other ranks do not wait for one that is idle.
  virtual void set_busy(bool busy) = 0;
  /// The rank runs nothing any more. Ranks that would have to wait for it fail with this cause.
  virtual void abandon(const std::exception_ptr& failure) = 0;

 protected:
  ExpertSource() = default;
};

}  // namespace zp
