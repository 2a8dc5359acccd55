// Buffers of the CPU device.
#include <cstring>
#include <utility>

#include "tests/support/errors.h"
#include "zp/device/cpu/cpu_device.h"

namespace zp::test {
namespace {

TEST(Buffer, IsAlignedAndAsLongAsAskedFor) {
  const std::unique_ptr<Device> device = std::make_unique<cpu::CpuDevice>(0, 1);
  for (const size_t size : {size_t{1}, size_t{255}, size_t{256}, size_t{100'000}}) {
    for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinnedHost}) {
      const Buffer buffer = device->allocate(size, kind);
      EXPECT_EQ(buffer.size_bytes(), size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
      std::memset(buffer.data(), 1, size);  // AddressSanitizer watches
    }
  }
}

TEST(Buffer, OfNoBytesIsEmpty) {
  const std::unique_ptr<Device> device = std::make_unique<cpu::CpuDevice>(0, 1);
  EXPECT_EQ(device->allocate(0).data(), nullptr);
  EXPECT_EQ(Buffer().data(), nullptr);
}

TEST(Buffer, MovesWithItsMemory) {
  const std::unique_ptr<Device> device = std::make_unique<cpu::CpuDevice>(0, 1);
  Buffer a = device->allocate(10);
  std::byte* data = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move): moved-from buffers are empty
  Buffer c = device->allocate(20);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.size_bytes(), 10u);
  EXPECT_EQ(b.data(), nullptr);  // NOLINT(bugprone-use-after-move)
}

TEST(Buffer, IsCountedWhileItLives) {
  const std::unique_ptr<Device> device = std::make_unique<cpu::CpuDevice>(0, 1);
  const Buffer kept = device->allocate(1000);
  {
    const Buffer gone = device->allocate(70, MemoryKind::kPinnedHost);
    EXPECT_EQ(device->allocated_bytes(MemoryKind::kDevice), 1000U);
    EXPECT_EQ(device->allocated_bytes(MemoryKind::kPinnedHost), 70U);
  }
  EXPECT_EQ(device->allocated_bytes(MemoryKind::kDevice), 1000U);
  EXPECT_EQ(device->allocated_bytes(MemoryKind::kPinnedHost), 0U);
  EXPECT_EQ(device->allocations(), 2);
}

TEST(CpuDevice, RefusesMoreMemoryThanThereIs) {
  const std::unique_ptr<Device> device = std::make_unique<cpu::CpuDevice>(0, 1);
  expect_error([&] { (void)device->allocate(size_t{1} << 60); }, ErrorCode::kOutOfMemory,
               {"1152921504606846976 bytes"});
}

TEST(CpuDevice, KnowsItsMemoryAndSaysWhatItIs) {
  const cpu::CpuDevice device(3, 2);
  const MemoryInfo memory = device.memory_info();
  EXPECT_GT(memory.total_bytes, 0u);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
  EXPECT_EQ(device.description(), "cpu:3 (2 threads)");
}

}  // namespace
}  // namespace zp::test
