// mmap, madvise, and page faults on purpose.
#include "zp/device/host_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "zp/base/error.h"
#include "zp/base/host_info.h"
#include "zp/base/math.h"

namespace zp {

/// Mapped addresses, from a huge page's boundary on; unmapped on destruction.
class AddressRange final {
 public:
  /// Null if the host refuses.
  static std::shared_ptr<AddressRange> map(size_t size_bytes, PageWish wish) {
    // So much that a boundary lies in it; what is before and after is given back.
    constexpr size_t kHuge = HostPages::kHugePageBytes;
    void* mapped =
        ::mmap(nullptr, size_bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto* reserved = static_cast<std::byte*>(mapped);
    const size_t before =
        round_up(reinterpret_cast<uintptr_t>(reserved), uintptr_t{kHuge}) - reinterpret_cast<uintptr_t>(reserved);
    std::byte* data = reserved + before;
    if (before > 0) (void)::munmap(reserved, before);
    if (before < kHuge) (void)::munmap(data + size_bytes, kHuge - before);
    // A wish: other pages only take longer.
    (void)::madvise(data, size_bytes, wish == PageWish::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    // A child would get copies of locked pages at once, a hundred gigabytes of them.
    (void)::madvise(data, size_bytes, MADV_DONTFORK);
    (void)::madvise(data, size_bytes, MADV_DONTDUMP);
    return std::make_shared<AddressRange>(data, size_bytes);
  }

  AddressRange(std::byte* data, size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;
  ~AddressRange() { (void)::munmap(data_, size_bytes_); }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  std::byte* data_;
  size_t size_bytes_;
};

namespace {

constexpr size_t kPageBytes = 4096;

// The host itself would promise more than it has, and end the process when it is used.
void check_limit(size_t size_bytes) {
  const size_t limit_bytes = host_memory().limit_bytes;
  if (size_bytes > limit_bytes)
    fail(ErrorCode::kOutOfMemory, "{} bytes of host memory exceed the {} bytes of memory this process may use",
         size_bytes, limit_bytes);
}

// Makes the pages of a part. False if the host has no memory for them. Kernels before Linux 5.14 cannot do it in one
// call; there a write to each page does, and is all that is needed: the kernel has cleared it.
bool make_pages(std::byte* data, size_t size_bytes) {
  if (::madvise(data, size_bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  for (size_t at = 0; at < size_bytes; at += kPageBytes) *static_cast<volatile std::byte*>(data + at) = std::byte{0};
  return true;
}

}  // namespace

HostPages::HostPages(size_t size_bytes, PageWish wish) : size_bytes_(size_bytes) {
  check_limit(size_bytes);
  range_ = AddressRange::map(round_up(size_bytes, kPageBytes), wish);
  if (range_ == nullptr) fail(ErrorCode::kOutOfMemory, "the host refused {} bytes of memory", size_bytes);
  data_ = range_->data();
}

HostPages::~HostPages() {
  // The range may stay.
  if (data_ != nullptr) (void)::madvise(data_, round_up(size_bytes_, kPageBytes), MADV_DONTNEED);
}

void HostPages::make(int32_t threads) {
  const size_t parts = ceil_div(size_bytes_, kHugePageBytes);
  std::atomic<size_t> next{0};
  std::atomic<bool> refused{false};
  const auto work = [&] {
    for (size_t part = next++; part < parts && !refused; part = next++) {
      const size_t begin = part * kHugePageBytes;
      if (!make_pages(data_ + begin, round_up(std::min(kHugePageBytes, size_bytes_ - begin), kPageBytes)))
        refused = true;
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int32_t i = 1; i < threads; ++i) helpers.emplace_back(work);
    work();
  }
  if (refused) fail(ErrorCode::kOutOfMemory, "the host has no pages for {} bytes of memory", size_bytes_);
}

HostPages HostAddresses::take(size_t size_bytes) {
  check_limit(size_bytes);
  const size_t wanted_bytes = round_up(size_bytes, HostPages::kHugePageBytes) + HostPages::kHugePageBytes;
  const std::lock_guard lock(mutex_);
  if (range_ == nullptr || range_->size_bytes() - used_bytes_ < wanted_bytes) {
    range_ = AddressRange::map(std::max(reserved_bytes_, wanted_bytes), PageWish::kHuge);
    if (range_ == nullptr) range_ = AddressRange::map(wanted_bytes, PageWish::kHuge);
    if (range_ == nullptr) fail(ErrorCode::kOutOfMemory, "the host refused {} bytes of memory", size_bytes);
    used_bytes_ = 0;
  }
  std::byte* data = range_->data() + used_bytes_;
  used_bytes_ += wanted_bytes;
  const size_t last_bytes = size_bytes % HostPages::kHugePageBytes;
  if (last_bytes != 0) (void)::madvise(data + size_bytes - last_bytes, HostPages::kHugePageBytes, MADV_NOHUGEPAGE);
  return {range_, data, size_bytes};
}

}  // namespace zp
