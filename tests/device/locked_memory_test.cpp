// Which memory is locked, which is the driver's, and in which order, with a driver made up.
#include "zp/device/locked_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/errors.h"
#include "zp/base/error.h"

namespace zp {
namespace {

constexpr size_t kLarge = size_t{4} << 20;

// Whether all pages of a range are in memory.
bool is_there(const std::byte* data, size_t size_bytes) {
  std::vector<unsigned char> pages((size_bytes + 4095) / 4096);
  return ::mincore(const_cast<std::byte*>(data), size_bytes, pages.data()) == 0 &&
         std::ranges::all_of(pages, [](unsigned char page) { return (page & 1U) != 0; });
}

class FakeLocker final : public PageLocker {
 public:
  bool lock(std::byte* data, size_t size_bytes) override {
    EXPECT_TRUE(is_there(data, size_bytes)) << "the driver would have to make pages";
    std::unique_lock held(mutex_);
    ++locking;
    changed_.notify_all();
    // Long enough for a second one to come, if it can.
    if (!changed_.wait_for(held, std::chrono::seconds(10), [&] { return locking >= wait_for; })) alone = true;
    if (refuses) return false;
    locked.insert(data);
    return true;
  }
  void unlock(std::byte* data) noexcept override {
    EXPECT_TRUE(is_there(data, kLarge)) << "it was unmapped before";
    EXPECT_EQ(locked.erase(data), 1U);
  }
  std::byte* allocate(size_t size_bytes) override {
    if (size_bytes > kLarge) fail(ErrorCode::kOutOfMemory, "the driver has no {} bytes", size_bytes);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(256, size_bytes));
    made.insert(data);
    return data;
  }
  void free(std::byte* data) noexcept override {
    EXPECT_EQ(made.erase(data), 1U);
    std::free(data);
  }

  std::set<std::byte*> locked;
  std::set<std::byte*> made;
  bool refuses = false;
  int32_t wait_for = 0;  // lock() returns once so many are in it
  int32_t locking = 0;
  bool alone = false;  // one was in vain

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

TEST(LockedMemory, LocksLargeMemoryAndUnlocksItBeforeItGoes) {
  FakeLocker locker;
  LockedMemory memory(locker, kLarge);
  std::byte* data = memory.allocate(kLarge);
  EXPECT_EQ(locker.locked, std::set<std::byte*>{data});
  EXPECT_TRUE(locker.made.empty());
  memory.release(data);
  EXPECT_TRUE(locker.locked.empty());
  EXPECT_FALSE(is_there(data, kLarge));
}

TEST(LockedMemory, LeavesSmallMemoryToTheDriver) {
  FakeLocker locker;
  LockedMemory memory(locker, kLarge);
  std::byte* data = memory.allocate(kLarge - 256);
  EXPECT_EQ(locker.made, std::set<std::byte*>{data});
  EXPECT_EQ(locker.locking, 0);
  memory.release(data);
  EXPECT_TRUE(locker.made.empty());
}

TEST(LockedMemory, LeavesToTheDriverWhatItDoesNotLock) {
  FakeLocker locker;
  locker.refuses = true;
  LockedMemory memory(locker, kLarge);
  std::byte* data = memory.allocate(kLarge);
  EXPECT_EQ(locker.locking, 1);
  EXPECT_EQ(locker.made, std::set<std::byte*>{data});
  memory.release(data);
  EXPECT_TRUE(locker.made.empty());
  test::expect_error([&] { (void)memory.allocate(kLarge + 1); }, ErrorCode::kOutOfMemory, {"4194305"});
}

TEST(LockedMemory, LocksSeveralAtOnce) {
  FakeLocker locker;
  locker.wait_for = 2;
  LockedMemory memory(locker, kLarge);
  std::byte* first = nullptr;
  std::byte* second = nullptr;
  {
    const std::jthread other([&] { second = memory.allocate(kLarge); });
    first = memory.allocate(kLarge);
  }
  EXPECT_FALSE(locker.alone) << "one waits for the other's lock";
  EXPECT_EQ(locker.locked, (std::set<std::byte*>{first, second}));
  memory.release(first);
  memory.release(second);
}

}  // namespace
}  // namespace zp
