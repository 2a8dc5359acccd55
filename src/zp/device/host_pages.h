// Large host memory whose pages are there before anybody needs them: made by several threads, on huge pages where the
// kernel has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace zp {

/// Which pages the kernel is asked for. Small ones are for comparison.
enum class PageWish : uint8_t { kHuge, kSmall };

class AddressRange;

/// Owns a part of a range of address space, which begins at a huge page's boundary. Movable; its pages go on
/// destruction. A child process does not have them, nor a core dump. At the end it takes small pages, so that it never
/// takes a whole page of them more than was asked for.
class HostPages final {
 public:
  static constexpr size_t kHugePageBytes = size_t{2} << 20;

  HostPages() = default;
  /// Reserves addresses; pages come with make(). Throws kOutOfMemory with the size if there are none, or if this
  /// process may not use so much memory.
  explicit HostPages(size_t size_bytes, PageWish wish = PageWish::kHuge);
  HostPages(HostPages&& other) noexcept { swap(other); }
  HostPages& operator=(HostPages&& other) noexcept {
    swap(other);
    return *this;
  }
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  ~HostPages();

  /// Makes every page, cleared, on up to `threads` threads; the calling one is one of them. Blocks. Throws kOutOfMemory
  /// if the host has no memory for them; some may be there then.
  void make(int32_t threads);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  friend class HostAddresses;
  HostPages(std::shared_ptr<AddressRange> range, std::byte* data, size_t size_bytes)
      : range_(std::move(range)), data_(data), size_bytes_(size_bytes) {}

  void swap(HostPages& other) noexcept {
    std::swap(range_, other.range_);
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
  }

  std::shared_ptr<AddressRange> range_;  // its other parts are others'
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

/// Hands out HostPages from address space that is reserved far ahead: to map memory waits for all who make or lock
/// pages in this process, and meanwhile holds up the next of them. Thread-safe.
class HostAddresses final {
 public:
  /// Addresses cost nothing but where the host counts what it has promised (vm.overcommit_memory 2), or limits a
  /// process's addresses; if it refuses so many, what is wanted alone is mapped.
  static constexpr size_t kReservedBytes = size_t{8} << 30;

  explicit HostAddresses(size_t reserved_bytes = kReservedBytes) : reserved_bytes_(reserved_bytes) {}

  /// Throws as HostPages() does. No two touch: there is a huge page's room between them, so that nobody takes two for
  /// one piece of memory.
  [[nodiscard]] HostPages take(size_t size_bytes);

 private:
  const size_t reserved_bytes_;
  std::mutex mutex_;
  // What is handed out next, from `used_bytes_` on; gone when all that was handed out of it has.
  std::shared_ptr<AddressRange> range_;
  size_t used_bytes_ = 0;
};

}  // namespace zp
