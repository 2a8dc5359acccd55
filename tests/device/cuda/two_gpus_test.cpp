// Two GPUs: each thread, stream and buffer is its own device's, and each reads the other's memory. Skips with fewer.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/errors.h"
#include "zp/base/clock.h"
#include "zp/device/cuda/cuda_device.h"
#include "zp/device/factory.h"

namespace zp::test {
namespace {

using cuda::CudaDevice;

class TwoGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      for (int32_t index = 0; index < 2; ++index) devices_.push_back(std::make_unique<CudaDevice>(index));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }
  [[nodiscard]] CudaDevice& device(size_t index) { return *devices_[index]; }
  void connect() {
    device(0).reach_memory_of(device(1));
    device(1).reach_memory_of(device(0));
  }

 private:
  std::vector<std::unique_ptr<CudaDevice>> devices_;
};

int device_of(const void* pointer) {
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, pointer), 0);
  return attributes.device;
}

TEST_F(TwoGpus, BuffersAreOnTheDeviceThatMadeThemWhoeverWasCurrent) {
  for (size_t index : {size_t{0}, size_t{1}, size_t{0}}) {
    const Buffer buffer = device(index).allocate(4096);
    EXPECT_EQ(device_of(buffer.data()), static_cast<int>(index));
    device(1 - index).bind();
    const Buffer other = device(index).allocate(4096);
    EXPECT_EQ(device_of(other.data()), static_cast<int>(index));
  }
}

TEST_F(TwoGpus, ReadEachOthersMemoryByCopyEngine) {
  connect();
  connect();  // changes nothing
  constexpr size_t kBytes = size_t{256} << 20;
  const SteadyClock clock;
  for (size_t reader : {size_t{0}, size_t{1}}) {
    CudaDevice& here = device(reader);
    CudaDevice& there = device(1 - reader);
    int can = 0;
    CUDA_CHECK(cudaDeviceCanAccessPeer(&can, here.index(), there.index()), here.index());
    ASSERT_EQ(can, 1);
    const Buffer from = there.allocate(kBytes);
    const Buffer to = here.allocate(kBytes);
    const auto writer = there.create_stream("writer");
    const auto pull = here.create_stream("pull", StreamUse::kPeerLink);
    for (int round = 1; round <= 3; ++round) {
      writer->fill(from.data(), static_cast<std::byte>(round), kBytes);
      pull->wait(writer->record());  // an event of the other device
      pull->copy(to.data(), from.data(), kBytes);
      writer->wait(pull->record());  // or the next fill would race with the copy
      std::vector<std::byte> back(kBytes);
      pull->copy(back.data(), to.data(), kBytes);
      pull->synchronize();
      ASSERT_TRUE(std::ranges::all_of(back, [&](std::byte b) { return b == static_cast<std::byte>(round); })) << round;
    }
    const int64_t begin_ns = clock.now_ns();
    for (int i = 0; i < 20; ++i) pull->copy(to.data(), from.data(), kBytes);
    pull->synchronize();
    std::printf("cuda:%d pulls %.1f GB/s from cuda:%d\n", here.index(),
                20.0 * kBytes / static_cast<double>(clock.now_ns() - begin_ns), there.index());
  }
}

TEST_F(TwoGpus, TimedEventsOfBothAgreeWithTheClock) {
  const SteadyClock clock;
  std::vector<std::jthread> threads;
  for (size_t index : {size_t{0}, size_t{1}})
    threads.emplace_back([&, index] {
      const auto stream = device(index).create_stream("test");
      const Buffer buffer = device(index).allocate(size_t{256} << 20);
      const int64_t before_ns = clock.now_ns();
      const Event begin = stream->record(EventTiming::kTimed);
      stream->fill(buffer.data(), std::byte{1}, buffer.size_bytes());
      const Event end = stream->record(EventTiming::kTimed);
      end.wait();
      constexpr int64_t kSlackNs = 1'000'000;
      ASSERT_TRUE(begin.reached_ns() && end.reached_ns());
      EXPECT_GE(*begin.reached_ns(), before_ns - kSlackNs);
      EXPECT_LE(*end.reached_ns(), clock.now_ns() + kSlackNs);
    });
}

}  // namespace
}  // namespace zp::test
