// Keeps track of which memory was locked and which the driver made.
#include "zp/device/locked_memory.h"

#include <algorithm>

#include "zp/base/host_info.h"

namespace zp {
namespace {

constexpr int32_t kThreadsMax = 16;

// Counts itself among those who do something at the time.
class Counted final {
 public:
  explicit Counted(std::atomic<int32_t>& count) : count_(count), number_(++count) {}
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --count_; }
  [[nodiscard]] bool alone() const noexcept { return number_ == 1; }

 private:
  std::atomic<int32_t>& count_;
  const int32_t number_;
};

}  // namespace

// Who is alone has all threads. Threads that begin while others lock pages would wait for these (their stacks are
// mapped memory), so who has company makes its pages by itself.
HostPages LockedMemory::make_pages(size_t size_bytes) {
  HostPages pages = addresses_.take(size_bytes);
  const Counted counted(making_);
  pages.make(counted.alone() ? std::min(usable_cores(), kThreadsMax) : 1);
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
