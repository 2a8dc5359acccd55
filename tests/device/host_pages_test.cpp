// Pages lie where and as large as they should, and are there when they have been made: as mincore() tells it.
#include "zp/device/host_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
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

TEST(HostPages, RefuseMoreThanTheProcessMayUse) {
  const size_t limit = host_memory().limit_bytes;
  test::expect_error([&] { const HostPages pages(limit + 1); }, ErrorCode::kOutOfMemory,
                     {std::to_string(limit + 1), std::to_string(limit)});
}

}  // namespace
}  // namespace zp
