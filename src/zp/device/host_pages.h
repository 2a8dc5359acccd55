// Large host memory whose pages are there before anybody needs them: made by several threads, on huge pages where the
// kernel has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace zp {

/// Which pages the kernel is asked for. Small ones are for comparison.
enum class PageWish : uint8_t { kHuge, kSmall };

/// Owns a range of address space that begins at a huge page's boundary. Movable; unmapped on destruction. At the end
/// the range takes small pages, so that it never takes a whole page of them more than was asked for.
class HostPages final {
 public:
  static constexpr size_t kHugePageBytes = size_t{2} << 20;

  HostPages() = default;
  /// Reserves addresses; pages come with make(). Throws kOutOfMemory with the size if there are none, or if this
  /// process may not use so much memory.
  explicit HostPages(size_t size_bytes, PageWish wish = PageWish::kHuge);
  HostPages(HostPages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  HostPages& operator=(HostPages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  ~HostPages();

  /// Makes every page, cleared, on up to `threads` threads; the calling one is one of them. Blocks.
  void make(int32_t threads);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace zp
