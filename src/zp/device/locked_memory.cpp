// Keeps track of which memory was locked and which the driver made.
#include "zp/device/locked_memory.h"

#include <algorithm>

#include "zp/base/host_info.h"

namespace zp {
namespace {

constexpr int32_t kThreadsMax = 16;

}  // namespace

// One at a time: whoever came first, and is waited for first, has all threads.
HostPages LockedMemory::make_pages(size_t size_bytes) {
  HostPages pages(size_bytes);
  const std::lock_guard lock(making_);
  pages.make(std::min(usable_cores(), kThreadsMax));
  return pages;
}

std::byte* LockedMemory::allocate(size_t size_bytes) {
  if (size_bytes < large_bytes_) return locker_.allocate(size_bytes);
  {
    HostPages pages = make_pages(size_bytes);
    std::byte* data = pages.data();
    if (locker_.lock(data, size_bytes)) {
      const std::lock_guard lock(mutex_);
      pages_.emplace(data, std::move(pages));
      return data;
    }
  }
  return locker_.allocate(size_bytes);
}

void LockedMemory::release(std::byte* data) noexcept {
  HostPages pages;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pages_.find(data);
    if (found != pages_.end()) {
      pages = std::move(found->second);
      pages_.erase(found);
    }
  }
  if (pages.data() == nullptr) return locker_.free(data);
  locker_.unlock(data);  // before its pages go
}

}  // namespace zp
