// Pages lie where and as large as they should, and are there when they have been made: as mincore() tells it.
#include "zp/device/host_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/support/errors.h"
#include "zp/base/host_info.h"

namespace zp {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHuge = size_t{2} << 20;

// Pages of a range that are in memory; -1 if part of it is not mapped.
int64_t pages_in_memory(const std::byte* data, size_t size_bytes) {
  std::vector<unsigned char> pages((size_bytes + kPage - 1) / kPage);
  if (::mincore(const_cast<std::byte*>(data), size_bytes, pages.data()) != 0) return -1;
  return std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; });
}

// Pages of addresses that this process has.
int64_t mapped_pages() {
  std::array<char, 64> text{};
  const int file = ::open("/proc/self/statm", O_RDONLY);
  const ssize_t read = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  return read > 0 ? std::atoll(text.data()) : 0;
}

TEST(HostPages, BeginOnAHugePageAndAreAllThereOnceMade) {
  for (const size_t size : {size_t{1}, kPage, kPage + 1, kHuge - 1, kHuge, kHuge + 1, 7 * kHuge + 3 * kPage + 5}) {
    SCOPED_TRACE(size);
    HostPages pages(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.data()) % kHuge, 0U);
    EXPECT_EQ(pages.size_bytes(), size);
    EXPECT_EQ(pages_in_memory(pages.data(), size), 0);
    pages.make(3);
    EXPECT_EQ(pages_in_memory(pages.data(), size), static_cast<int64_t>((size + kPage - 1) / kPage));
    EXPECT_EQ(std::count(pages.data(), pages.data() + size, std::byte{0}), static_cast<std::ptrdiff_t>(size));
  }
}

TEST(HostPages, TakeNoMoreAddressesThanTheirPagesAndGiveThemBack) {
  (void)mapped_pages();
  const int64_t before = mapped_pages();
  {
    const HostPages pages(3 * kHuge + 1);
    EXPECT_EQ(mapped_pages() - before, static_cast<int64_t>(3 * kHuge / kPage + 1));
  }
  EXPECT_EQ(mapped_pages(), before);
}

TEST(HostPages, MoveWithTheirOwner) {
  HostPages pages(kHuge);
  std::byte* data = pages.data();
  HostPages other(std::move(pages));
  EXPECT_EQ(other.data(), data);
  HostPages third(kPage);
  third = std::move(other);
  EXPECT_EQ(third.data(), data);
  third.make(1);
  EXPECT_EQ(pages_in_memory(data, kHuge), static_cast<int64_t>(kHuge / kPage));
}

TEST(HostAddresses, PartsLieApartAndTakeNoPageMoreThanAsked) {
  HostAddresses addresses(16 * kHuge);
  std::vector<HostPages> parts;
  const std::byte* end = nullptr;
  for (const size_t size : {size_t{1}, kHuge - 1, kHuge, kHuge + kPage + 1}) {
    SCOPED_TRACE(size);
    HostPages& part = parts.emplace_back(addresses.take(size));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(part.data()) % kHuge, 0U);
    EXPECT_EQ(part.size_bytes(), size);
    if (end != nullptr) {
      EXPECT_GE(part.data() - end, static_cast<std::ptrdiff_t>(kHuge)) << "two parts may be taken for one";
    }
    end = part.data() + size;
    part.make(1);
    EXPECT_EQ(pages_in_memory(part.data(), (size + kHuge - 1) / kHuge * kHuge),
              static_cast<int64_t>((size + kPage - 1) / kPage));
  }
}

TEST(HostAddresses, MapOnceForManyParts) {
  HostAddresses addresses(64 * kHuge);
  std::vector<HostPages> parts;
  parts.push_back(addresses.take(kHuge));
  const int64_t before = mapped_pages();
  for (int32_t i = 0; i < 20; ++i) parts.push_back(addresses.take(kHuge));
  EXPECT_LT(mapped_pages() - before, static_cast<int64_t>(kHuge / kPage)) << "a part had addresses of its own mapped";
}

TEST(HostAddresses, APartsPagesGoWithItAndTheRestStays) {
  auto addresses = std::make_unique<HostAddresses>(8 * kHuge);
  HostPages first = addresses->take(kHuge);
  HostPages second = addresses->take(kHuge);
  addresses.reset();
  first.make(1);
  second.make(2);
  std::ranges::fill(second.data(), second.data() + kHuge, std::byte{7});
  const std::byte* gone = first.data();
  first = HostPages();
  EXPECT_EQ(pages_in_memory(gone, kHuge), 0);
  EXPECT_EQ(std::count(second.data(), second.data() + kHuge, std::byte{7}), static_cast<std::ptrdiff_t>(kHuge));
  second = HostPages();
  EXPECT_EQ(pages_in_memory(gone, kHuge), -1) << "the range is still mapped";
}

// Whether `wanted` lies at `address`. Asks the system to read there, so that addresses without a page are no fault; in
// a child of a process with threads, so without allocating.
bool reads(const std::byte* address, uint64_t wanted) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return false;
  uint64_t found = 0;
  const bool read = ::write(ends[1], address, sizeof(found)) == static_cast<ssize_t>(sizeof(found)) &&
                    ::read(ends[0], &found, sizeof(found)) == static_cast<ssize_t>(sizeof(found));
  ::close(ends[0]);
  ::close(ends[1]);
  return read && found == wanted;
}

// A child process has no copies of them: at their addresses is nothing, or what the child has put there since.
TEST(HostPages, AreNotAChilds) {
  constexpr uint64_t kMark = 0x5eed'5eed'5eed'5eedULL;
  HostPages pages(kHuge);
  pages.make(1);
  std::memcpy(pages.data(), &kMark, sizeof(kMark));
  ASSERT_TRUE(reads(pages.data(), kMark));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(reads(pages.data(), kMark) ? 1 : 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Where the host refuses to reserve, the part itself is mapped.
TEST(HostAddresses, ReserveNoMoreThanTheHostAllows) {
  HostAddresses addresses(size_t{1} << 60);
  HostPages first = addresses.take(kHuge);
  HostPages second = addresses.take(kHuge);
  for (HostPages* part : {&first, &second}) {
    part->make(1);
    EXPECT_EQ(pages_in_memory(part->data(), kHuge), static_cast<int64_t>(kHuge / kPage));
  }
}

TEST(HostAddresses, HaveRoomForWhatExceedsARange) {
  HostAddresses addresses(4 * kHuge);
  HostPages small = addresses.take(kHuge);
  HostPages large = addresses.take(9 * kHuge);
  HostPages another = addresses.take(kHuge);
  for (HostPages* part : {&small, &large, &another}) {
    part->make(1);
    EXPECT_EQ(pages_in_memory(part->data(), part->size_bytes()), static_cast<int64_t>(part->size_bytes() / kPage));
  }
}

TEST(HostPages, RefuseMoreThanTheProcessMayUse) {
  const size_t limit = host_memory().limit_bytes;
  test::expect_error([&] { const HostPages pages(limit + 1); }, ErrorCode::kOutOfMemory,
                     {std::to_string(limit + 1), std::to_string(limit)});
  HostAddresses addresses;
  test::expect_error([&] { (void)addresses.take(limit + 1); }, ErrorCode::kOutOfMemory,
                     {std::to_string(limit + 1), std::to_string(limit)});
}

}  // namespace
}  // namespace zp
