// mmap, madvise, and page faults on purpose.
#include "zp/device/host_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "zp/base/error.h"
#include "zp/base/host_info.h"
#include "zp/base/math.h"

namespace zp {
namespace {

constexpr size_t kPageBytes = 4096;

// Makes the pages of a part. Kernels before Linux 5.14 cannot do it in one call; there a write to each page does, and
// is all that is needed: the kernel has cleared it.
void make_pages(std::byte* data, size_t size_bytes) {
  if (::madvise(data, size_bytes, MADV_POPULATE_WRITE) == 0) return;
  for (size_t at = 0; at < size_bytes; at += kPageBytes) *static_cast<volatile std::byte*>(data + at) = std::byte{0};
}

}  // namespace

HostPages::HostPages(size_t size_bytes, PageWish wish) : size_bytes_(size_bytes) {
  // The host itself would promise more than it has, and end the process when it is used.
  const size_t limit_bytes = host_memory().limit_bytes;
  if (size_bytes > limit_bytes)
    fail(ErrorCode::kOutOfMemory, "{} bytes of host memory exceed the {} bytes of memory this process may use",
         size_bytes, limit_bytes);
  // So much that a boundary lies in it; what is before and after is given back.
  const size_t pages_bytes = round_up(size_bytes, kPageBytes);
  const size_t reserved_bytes = pages_bytes + kHugePageBytes;
  void* mapped = ::mmap(nullptr, reserved_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail(ErrorCode::kOutOfMemory, "the host refused {} bytes of memory", size_bytes);
  auto* reserved = static_cast<std::byte*>(mapped);
  const size_t before = round_up(reinterpret_cast<uintptr_t>(reserved), uintptr_t{kHugePageBytes}) -
                        reinterpret_cast<uintptr_t>(reserved);
  data_ = reserved + before;
  if (before > 0) (void)::munmap(reserved, before);
  if (before < kHugePageBytes) (void)::munmap(data_ + pages_bytes, kHugePageBytes - before);
  // A wish: other pages only take longer.
  (void)::madvise(data_, pages_bytes, wish == PageWish::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

HostPages::~HostPages() {
  if (data_ != nullptr) (void)::munmap(data_, round_up(size_bytes_, kPageBytes));
}

void HostPages::make(int32_t threads) {
  const size_t parts = ceil_div(size_bytes_, kHugePageBytes);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t part = next++; part < parts; part = next++) {
      const size_t begin = part * kHugePageBytes;
      make_pages(data_ + begin, round_up(std::min(kHugePageBytes, size_bytes_ - begin), kPageBytes));
    }
  };
  std::vector<std::jthread> helpers;
  for (int32_t i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
}

}  // namespace zp
