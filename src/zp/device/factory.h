// Makes a Device from a description; the only place that names concrete backends.
#pragma once

#include <memory>

#include "zp/device/device.h"
#include "zp/device/link.h"

namespace zp {

/// Which device to open, and with what.
struct DeviceSpec {
  DeviceKind kind = DeviceKind::kCpu;
  int32_t index = 0;    ///< CUDA: the device's ordinal. CPU: only names the device.
  int32_t threads = 0;  ///< CPU: threads that compute; 0 means one for each core this process may use.
  /// CPU: what copies on streams of kPeerLink and kHostLink go over; null: as fast as memory is. Devices that share a
  /// link share its bandwidth.
  std::shared_ptr<Link> peer_link = nullptr;
  std::shared_ptr<Link> host_link = nullptr;
};

/// Throws kUnsupported for a backend that this build or machine does not have, naming what is missing.
[[nodiscard]] std::unique_ptr<Device> make_device(const DeviceSpec& spec);

}  // namespace zp
