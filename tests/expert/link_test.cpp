// Links take as long as their bandwidth says, share it, stall, and fail by name.
#include "zp/device/link.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/errors.h"
#include "zp/base/clock.h"
#include "zp/device/factory.h"

namespace zp {
namespace {

class LinkTest : public ::testing::Test {
 protected:
  // Seconds that `copies` copies of `bytes` on each of `streams` streams take.
  double seconds(const std::shared_ptr<Link>& link, int32_t streams, int32_t copies, size_t bytes) {
    const auto device = make_device({.kind = DeviceKind::kCpu, .threads = 1, .peer_link = link});
    std::vector<std::byte> source(bytes, std::byte{7});
    std::vector<std::vector<std::byte>> targets(static_cast<size_t>(streams), std::vector<std::byte>(bytes));
    std::vector<std::unique_ptr<Stream>> all;
    const SteadyClock clock;
    const int64_t begin = clock.now_ns();
    for (auto& target : targets) {
      Stream& stream = *all.emplace_back(device->create_stream("link", StreamUse::kPeerLink));
      for (int32_t i = 0; i < copies; ++i) stream.copy(target.data(), source.data(), bytes);
    }
    for (const auto& stream : all) stream->synchronize();
    const double taken = static_cast<double>(clock.now_ns() - begin) * 1e-9;
    for (const auto& target : targets) EXPECT_EQ(target, source);
    return taken;
  }
  std::shared_ptr<Link> link(uint64_t bytes_per_second, int64_t latency_ns = 0) {
    return std::make_shared<Link>(LinkSpec{"the test link", bytes_per_second, latency_ns});
  }
};

// 1 MB/s: 20 copies of 5 kB take 0.1 s. Nothing may be faster; how much slower depends on the machine alone.
TEST_F(LinkTest, IsNoFasterThanItsBandwidth) {
  EXPECT_GE(seconds(link(1'000'000), 1, 20, 5000), 0.099);
  EXPECT_GE(seconds(link(0, 5'000'000), 1, 20, 50), 0.099) << "latency";
}

TEST_F(LinkTest, SharesItsBandwidthAmongStreams) { EXPECT_GE(seconds(link(1'000'000), 4, 5, 5000), 0.099); }

TEST_F(LinkTest, CountsWhatWentOverIt) {
  const auto counted = link(0);
  (void)seconds(counted, 2, 3, 100);
  EXPECT_EQ(counted->counts().copies, 6);
  EXPECT_EQ(counted->counts().bytes, 600U);
}

TEST_F(LinkTest, AFailureNamesTheLinkAndTheCopy) {
  const auto failing = link(0);
  failing->fail_after(2);
  test::expect_error([&] { (void)seconds(failing, 1, 5, 10); }, ErrorCode::kDevice, {"the test link", "copy 3"});
  test::expect_error([&] { (void)seconds(failing, 1, 1, 10); }, ErrorCode::kDevice, {"the test link"});
}

TEST_F(LinkTest, AStalledLinkMovesNothingUntilItGoesOn) {
  const auto stalled = link(0);
  const auto device = make_device({.kind = DeviceKind::kCpu, .threads = 1, .peer_link = stalled});
  const auto stream = device->create_stream("link", StreamUse::kPeerLink);
  const int32_t source = 7;
  int32_t target = 0;
  stalled->stall();
  stream->copy(&target, &source, sizeof(source));
  const Event done = stream->record(EventTiming::kTimed);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(done.status(), EventStatus::kPending);
  EXPECT_FALSE(done.reached_ns().has_value());
  stalled->resume();
  done.wait();
  EXPECT_EQ(target, 7);
  EXPECT_TRUE(done.reached_ns().has_value());
}

TEST_F(LinkTest, OtherStreamsOfTheDeviceDoNotUseIt) {
  const auto peer = link(0);
  const auto device = make_device({.kind = DeviceKind::kCpu, .threads = 1, .peer_link = peer});
  const int32_t source = 7;
  int32_t target = 0;
  for (const StreamUse use : {StreamUse::kCompute, StreamUse::kHostLink}) {
    const auto stream = device->create_stream("other", use);
    stream->copy(&target, &source, sizeof(source));
    stream->synchronize();
  }
  EXPECT_EQ(peer->counts().copies, 0);
}

TEST(Stream, CopiesBatchesInOrderAndFills) {
  const auto device = make_device({.kind = DeviceKind::kCpu, .threads = 1});
  const auto stream = device->create_stream("test");
  std::vector<char> source = {'a', 'b', 'c', 'd'};
  std::vector<char> target(4, 'x');
  const std::vector<CopyRange> copies = {{target.data(), source.data() + 2, 2}, {target.data() + 1, source.data(), 2}};
  stream->copy_batch(copies);
  stream->fill(target.data() + 3, std::byte{'z'}, 1);
  stream->synchronize();
  EXPECT_EQ(std::string(target.begin(), target.end()), "cabz");
}

}  // namespace
}  // namespace zp
