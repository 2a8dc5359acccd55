// Host memory that a driver's copy engines reach, made fast: pages by several threads, locked while others are made.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "zp/device/host_pages.h"

namespace zp {

/// What a driver offers. Thread-safe.
class PageLocker {
 public:
  virtual ~PageLocker() = default;
  PageLocker(const PageLocker&) = delete;
  PageLocker& operator=(const PageLocker&) = delete;

  /// Keeps pages that are there in memory, and tells the copy engines of them. False if the driver refuses.
  [[nodiscard]] virtual bool lock(std::byte* data, size_t size_bytes) = 0;
  virtual void unlock(std::byte* data) noexcept = 0;
  /// Makes and locks memory by itself, slowly. Throws why it cannot.
  [[nodiscard]] virtual std::byte* allocate(size_t size_bytes) = 0;
  virtual void free(std::byte* data) noexcept = 0;

 protected:
  PageLocker() = default;
};

/// Allocates locked memory; outlives what it allocated. Thread-safe: several allocations at once are the fast way,
/// since the pages of some are made while others are being locked.
class LockedMemory final {
 public:
  /// Smaller memory is the driver's to make: nobody waits long for it, and it would fill no huge page.
  static constexpr size_t kLargeBytes = size_t{32} << 20;

  /// `locker` outlives it. Allocations of at least `large_bytes` are made of HostPages.
  explicit LockedMemory(PageLocker& locker, size_t large_bytes = kLargeBytes)
      : locker_(locker), large_bytes_(large_bytes) {}

  /// Aligned to 256 bytes. No copy may cross from one allocation to another, and none touches another. If the driver
  /// refuses to lock pages, it makes the memory itself. Throws as HostPages and PageLocker::allocate() do.
  [[nodiscard]] std::byte* allocate(size_t size_bytes);
  void release(std::byte* data) noexcept;

 private:
  [[nodiscard]] HostPages make_pages(size_t size_bytes);

  PageLocker& locker_;
  const size_t large_bytes_;
  HostAddresses addresses_;
  std::atomic<int32_t> making_{0};                   // allocations whose pages are being made
  std::mutex mutex_;                                 // guards pages_
  std::unordered_map<std::byte*, HostPages> pages_;  // by address: those that were locked
};

}  // namespace zp
