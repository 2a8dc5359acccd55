// The CUDA device: memory, copies, order, events and how failures travel. Skips without a GPU.
#include "zp/device/cuda/cuda_device.h"

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/errors.h"
#include "zp/base/clock.h"
#include "zp/device/factory.h"

namespace zp::test {
namespace {

using cuda::CudaDevice;

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = std::make_unique<CudaDevice>(0);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }
  [[nodiscard]] Device& device() { return *device_; }

 private:
  std::unique_ptr<CudaDevice> device_;
};

std::vector<std::byte> pattern(size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  for (size_t i = 0; i < size_bytes; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 256);
  return bytes;
}

TEST(CudaFactory, SaysWhatIsMissing) {
  // A GPU of this number is nowhere: whatever the machine, the error names it.
  expect_error([] { (void)make_device({.kind = DeviceKind::kCuda, .index = 999}); }, ErrorCode::kUnsupported,
               {"cuda:999"});
}

TEST_F(CudaDeviceTest, BuffersAreAlignedAndMemoryIsCounted) {
  const size_t free_before = device().memory_info().free_bytes;
  const Buffer large = device().allocate(size_t{256} << 20);
  EXPECT_LE(device().memory_info().free_bytes, free_before - (size_t{256} << 20));
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinnedHost})
    for (const size_t size : {size_t{1}, size_t{257}, size_t{100'000}, size_t{300} << 20}) {
      const Buffer buffer = device().allocate(size, kind);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0U);
      EXPECT_EQ(buffer.size_bytes(), size);
      const size_t of_kind = kind == MemoryKind::kDevice ? large.size_bytes() + size : size;
      EXPECT_EQ(device().allocated_bytes(kind), of_kind);
    }
  EXPECT_EQ(device().allocated_bytes(MemoryKind::kPinnedHost), 0U);
  EXPECT_EQ(device().allocate(0).data(), nullptr);
}

TEST_F(CudaDeviceTest, RefusesMoreMemoryThanThereIs) {
  expect_error([&] { (void)device().allocate(size_t{1} << 50); }, ErrorCode::kOutOfMemory, {"1125899906842624 bytes"});
  expect_error([&] { (void)device().allocate(size_t{1} << 50, MemoryKind::kPinnedHost); }, ErrorCode::kOutOfMemory,
               {"1125899906842624 bytes"});
  const Buffer buffer = device().allocate(1024);  // a refusal is no failure of the device
  EXPECT_NE(buffer.data(), nullptr);
}

TEST_F(CudaDeviceTest, CopiesThereAndBack) {
  const auto stream = device().create_stream("test");
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{300} << 20}) {
    const std::vector<std::byte> bytes = pattern(size);
    const Buffer pinned = device().allocate(size, MemoryKind::kPinnedHost);
    std::memcpy(pinned.data(), bytes.data(), size);
    const Buffer on_device = device().allocate(size);
    std::vector<std::byte> back(size);
    stream->copy(on_device.data(), pinned.data(), size);
    stream->copy(back.data(), on_device.data(), size);
    stream->synchronize();
    EXPECT_TRUE(back == bytes) << size;
  }
}

TEST_F(CudaDeviceTest, BatchesCopyEveryRangeInOrder) {
  const auto stream = device().create_stream("test", StreamUse::kHostLink);
  constexpr size_t kSize = 10'000;
  const std::vector<std::byte> bytes = pattern(kSize);
  const Buffer pinned = device().allocate(kSize, MemoryKind::kPinnedHost);
  std::memcpy(pinned.data(), bytes.data(), kSize);
  const Buffer to = device().allocate(kSize);
  std::vector<CopyRange> copies;
  for (size_t i = 0; i < kSize; i += 1000)  // neighbours, which may be joined
    copies.push_back({to.data() + i, pinned.data() + i, 1000});
  copies.push_back({to.data() + 5, pinned.data(), 10});  // over what the first ones wrote
  copies.push_back({to.data(), pinned.data(), 0});
  stream->copy_batch(copies);
  stream->copy_batch({});
  std::vector<std::byte> back(kSize);
  stream->copy(back.data(), to.data(), kSize);
  stream->synchronize();
  std::vector<std::byte> wanted = bytes;
  std::memcpy(wanted.data() + 5, bytes.data(), 10);
  EXPECT_TRUE(back == wanted);
}

TEST_F(CudaDeviceTest, FillsAndWaitsAcrossStreams) {
  const auto first = device().create_stream("first");
  const auto second = device().create_stream("second");
  constexpr size_t kSize = size_t{64} << 20;
  const Buffer a = device().allocate(kSize);
  const Buffer b = device().allocate(kSize);
  for (int round = 0; round < 20; ++round) {
    first->fill(a.data(), static_cast<std::byte>(round), kSize);
    const Event filled = first->record();
    second->wait(filled);
    second->copy(b.data(), a.data(), kSize);
    const Event copied = second->record();
    first->wait(copied);
  }
  std::vector<std::byte> back(kSize);
  second->copy(back.data(), b.data(), kSize);
  second->synchronize();
  EXPECT_TRUE(std::ranges::all_of(back, [](std::byte byte) { return byte == std::byte{19}; }));
}

TEST_F(CudaDeviceTest, TimedEventsAgreeWithTheClock) {
  const SteadyClock clock;
  const auto stream = device().create_stream("test");
  const Buffer buffer = device().allocate(size_t{1} << 30);
  const int64_t before_ns = clock.now_ns();
  const Event begin = stream->record(EventTiming::kTimed);
  for (int i = 0; i < 50; ++i) stream->fill(buffer.data(), std::byte{1}, buffer.size_bytes());
  const Event end = stream->record(EventTiming::kTimed);
  end.wait();
  const int64_t after_ns = clock.now_ns();
  constexpr int64_t kSlackNs = 1'000'000;
  ASSERT_TRUE(begin.reached_ns() && end.reached_ns());
  EXPECT_GT(*end.reached_ns(), *begin.reached_ns());
  EXPECT_GE(*begin.reached_ns(), before_ns - kSlackNs);
  EXPECT_LE(*end.reached_ns(), after_ns + kSlackNs);
  EXPECT_FALSE(stream->record().reached_ns());
}

// Epochs of a millisecond, each followed by one that is not waited for: what was reached when stays what it was,
// whether events come one after another or the last epoch is long gone.
TEST_F(CudaDeviceTest, TimesGoOnFromOneEpochToTheNext) {
  constexpr int64_t kEpochNs = 1'000'000;
  const auto events = std::make_shared<cuda::EventPool>(0, kEpochNs);
  cuda::CudaStream stream(0, events);
  const SteadyClock clock;
  const auto first_epoch = events->epoch();
  int64_t last_ns = 0;
  int32_t epochs = 0;
  auto epoch = first_epoch;
  const int64_t begin_ns = clock.now_ns();
  for (int64_t round = 0; clock.now_ns() - begin_ns < 100 * kEpochNs; ++round) {
    if (round % 64 == 63) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const int64_t before_ns = clock.now_ns();
    const Event event = stream.record(EventTiming::kTimed);
    event.wait();
    const int64_t after_ns = clock.now_ns();
    ASSERT_TRUE(event.reached_ns());
    EXPECT_GE(*event.reached_ns(), before_ns - kEpochNs);
    EXPECT_LE(*event.reached_ns(), after_ns + kEpochNs);
    EXPECT_GE(*event.reached_ns(), last_ns - 1000);  // an event tells half a microsecond
    last_ns = *event.reached_ns();
    if (const auto now = events->epoch(); now != epoch) {
      epoch = now;
      ++epochs;
    }
  }
  EXPECT_GT(epochs, 4);
}

TEST_F(CudaDeviceTest, EventsOutliveTheirStreamAndAreUsedFromAnyThread) {
  std::optional<Event> event;
  {
    const auto stream = device().create_stream("test");
    event = stream->record(EventTiming::kTimed);
  }
  std::jthread([&] { event->wait(); }).join();
  EXPECT_EQ(event->status(), EventStatus::kDone);
}

TEST_F(CudaDeviceTest, AFailedActPoisonsItsStreamAndWhoeverWaits) {
  const auto owner = device().create_stream("bad");
  auto* stream = dynamic_cast<cuda::CudaStream*>(owner.get());
  ASSERT_NE(stream, nullptr);
  const auto waiter = device().create_stream("waiter");
  const auto bystander = device().create_stream("bystander");
  const Event before = stream->record();
  stream->act("test", [] { fail(ErrorCode::kDevice, "the link is down"); });
  bool ran = false;
  stream->act("test", [&] { ran = true; });
  const Event after = stream->record();
  waiter->wait(after);
  expect_error([&] { stream->synchronize(); }, ErrorCode::kDevice, {"the link is down"});
  expect_error([&] { after.wait(); }, ErrorCode::kDevice, {"the link is down"});
  expect_error([&] { waiter->synchronize(); }, ErrorCode::kDevice, {"the link is down"});
  EXPECT_EQ(after.status(), EventStatus::kFailed);
  before.wait();
  bystander->synchronize();
  EXPECT_FALSE(ran);
}

TEST_F(CudaDeviceTest, ACallThatCudaRefusesIsNamed) {
  const auto stream = device().create_stream("test");
  const Buffer buffer = device().allocate(16);
  stream->fill(buffer.data(), std::byte{0}, size_t{1} << 45);
  expect_error([&] { stream->synchronize(); }, ErrorCode::kDevice, {"cudaMemsetAsync", "cuda:0"});
}

}  // namespace
}  // namespace zp::test
