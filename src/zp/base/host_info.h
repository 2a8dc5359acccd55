// What this process may use of the host: cores, memory within the container's limit, and its peak so far.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zp {

/// Cores this process may run on (its affinity mask and the container's CPU quota, rounded up; at least 1).
[[nodiscard]] int32_t usable_cores();

/// Memory within the container's limit. `limit_bytes` is the smaller of the machine's memory and the cgroup limits
/// above this process; `available_bytes` is what can still be taken without swapping.
struct HostMemory {
  size_t limit_bytes = 0;
  size_t available_bytes = 0;
};
[[nodiscard]] HostMemory host_memory();

/// The largest resident size this process has had, in bytes.
[[nodiscard]] size_t peak_resident_bytes();

}  // namespace zp
