// The CPU device: memory within the container's limit, and streams.
#include "zp/device/cpu/cpu_device.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "zp/base/error.h"
#include "zp/base/host_info.h"
#include "zp/base/math.h"

namespace zp::cpu {
namespace {
constexpr size_t kAlignment = 256;
constexpr size_t kHugePageBytes = size_t{2} << 20;
// An allocation of at least so many is aligned to them.
constexpr size_t kHugePages = 32;
// From this size on, an allocation is worth a look at the host's memory, which may grow while we run.
constexpr size_t kLargeAllocation = size_t{1} << 30;
}  // namespace

CpuDevice::CpuDevice(const DeviceSpec& spec)
    : index_(spec.index),
      peer_link_(spec.peer_link),
      host_link_(spec.host_link),
      pool_(spec.threads > 0 ? spec.threads : usable_cores()) {}

std::string CpuDevice::description() const { return fmt::format("cpu:{} ({} threads)", index_, pool_.threads()); }

MemoryInfo CpuDevice::memory_info() const {
  const HostMemory memory = host_memory();
  return {.total_bytes = memory.limit_bytes, .free_bytes = memory.available_bytes};
}

Buffer CpuDevice::allocate(size_t size_bytes, MemoryKind kind) {
  if (size_bytes == 0) return {};
  if (size_bytes >= kLargeAllocation) {
    // The host itself would promise more than it has, and end the process when it is used.
    const size_t limit_bytes = host_memory().limit_bytes;
    if (size_bytes > limit_bytes)
      fail(ErrorCode::kOutOfMemory, "an allocation of {} bytes exceeds the {} bytes of memory this process may use",
           size_bytes, limit_bytes);
  }
  // On huge pages, where the kernel has them, large memory is there sooner and costs fewer misses.
  const bool huge = size_bytes >= kHugePages * kHugePageBytes;
  const size_t alignment = huge ? kHugePageBytes : kAlignment;
  void* data = std::aligned_alloc(alignment, round_up(size_bytes, alignment));
  if (data == nullptr) fail(ErrorCode::kOutOfMemory, "the host refused an allocation of {} bytes", size_bytes);
  if (huge) (void)::madvise(data, size_bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
  count_allocation(size_bytes, kind);
  return {this, kind, static_cast<std::byte*>(data), size_bytes};
}

void CpuDevice::release(std::byte* data, size_t size_bytes, MemoryKind kind) noexcept {
  std::free(data);
  count_release(size_bytes, kind);
}

std::unique_ptr<Stream> CpuDevice::create_stream(std::string name, StreamUse use) {
  std::shared_ptr<Link> link = use == StreamUse::kPeerLink   ? peer_link_
                               : use == StreamUse::kHostLink ? host_link_
                                                             : nullptr;
  return std::make_unique<CpuStream>(std::move(name), std::move(link));
}

int64_t CpuDevice::reserve_compute(int64_t from_ns, int64_t duration_ns) {
  const std::lock_guard lock(pace_mutex_);
  paced_until_ns_ = std::max(paced_until_ns_, from_ns) + duration_ns;
  return paced_until_ns_;
}

}  // namespace zp::cpu
