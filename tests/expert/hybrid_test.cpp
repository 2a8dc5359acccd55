// Hybrid experts arrive whole and in time from shards, windows and the host; coupling is bounded and reported.
#include "zp/expert/hybrid.h"

#include <gtest/gtest.h>

#include <future>
#include <numeric>

#include "tests/expert/experts_under_test.h"
#include "tests/support/errors.h"

namespace zp {
namespace {

using namespace std::chrono_literals;
using test::ClusterSpec;
using test::ClusterUnderTest;
using test::kTestBlobBytes;
using test::ReaderUnderTest;

constexpr int64_t kNever = int64_t{3600} * 1'000'000'000;

// All ranks of a cluster, each with a thread's worth of steps to run.
class HybridUnderTest {
 public:
  HybridUnderTest(const ClusterSpec& cluster_spec, const StreamingSpec& spec) : cluster(cluster_spec) {
    std::vector<Device*> devices;
    for (int32_t r = 0; r < cluster_spec.ranks; ++r) devices.push_back(&cluster.device(r));
    channel =
        std::make_unique<HostChannel>(cluster.cluster(), devices, std::vector<SpanLog*>(devices.size(), nullptr), spec);
    for (int32_t r = 0; r < cluster_spec.ranks; ++r) {
      sources.push_back(
          std::make_unique<HybridExperts>(cluster.cluster(), *channel, r, cluster.device(r), spec, nullptr));
      readers.push_back(std::make_unique<ReaderUnderTest>(cluster.cluster(), cluster.device(r), *sources.back()));
    }
  }
  // Runs steps on one rank as its thread would; the experts that were wrong.
  int64_t run(int32_t rank, int32_t steps, std::chrono::microseconds layer_time = {}) {
    const auto r = static_cast<size_t>(rank);
    sources[r]->set_busy(true);
    int64_t wrong = 0;
    for (int32_t step = 0; step < steps; ++step) {
      readers[r]->issue_step(layer_time);
      wrong = readers[r]->wrong_experts();
    }
    sources[r]->set_busy(false);
    return wrong;
  }
  std::future<int64_t> start(int32_t rank, int32_t steps, std::chrono::microseconds layer_time = {}) {
    return std::async(std::launch::async, [=, this] { return run(rank, steps, layer_time); });
  }

  ClusterUnderTest cluster;
  std::unique_ptr<HostChannel> channel;
  std::vector<std::unique_ptr<HybridExperts>> sources;
  std::vector<std::unique_ptr<ReaderUnderTest>> readers;
};

ClusterSpec cluster_spec(int32_t ranks, int64_t experts_a_rank, const LinkSpec& peer = {}, const LinkSpec& host = {}) {
  return {.ranks = ranks,
          .layers = 6,
          .placing = Placing::kHybrid,
          .experts_a_rank = experts_a_rank,
          .peer_link = peer,
          .host_link = host};
}

struct Timing {
  const char* name;
  LinkSpec peer;
  LinkSpec host;
  std::chrono::microseconds layer_time;
  int64_t patience_ns;
};

const std::vector<Timing> kTimings = {
    {"Fast", {}, {}, 0us, kNever},
    {"SlowPulls", {.latency_ns = 400'000}, {}, 0us, kNever},
    {"SlowHost", {}, {.latency_ns = 400'000}, 0us, kNever},
    {"SlowLayers", {}, {}, 1500us, kNever},
    {"EverythingLate", {}, {.latency_ns = 100'000}, 0us, 0},
};

class HybridExpertsTest : public ::testing::TestWithParam<std::tuple<int32_t /*ranks*/, int32_t /*window*/, size_t>> {};

TEST_P(HybridExpertsTest, EveryLayerReadsItsOwnExperts) {
  const auto& [ranks, window, timing] = GetParam();
  const Timing& t = kTimings[timing];
  HybridUnderTest hybrid(cluster_spec(ranks, 2, t.peer, t.host), {.slots = 2 + ranks % 2,
                                                                  .window = window,
                                                                  .slice_bytes = 300,
                                                                  .poison = true,
                                                                  .share_patience_ns = t.patience_ns});
  std::vector<std::future<int64_t>> wrong;
  for (int32_t r = 0; r < ranks; ++r) wrong.push_back(hybrid.start(r, 1 + r % 3, t.layer_time));
  for (auto& rank : wrong) EXPECT_EQ(rank.get(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, HybridExpertsTest,
                         ::testing::Combine(::testing::Values(2, 3, 4, 8), ::testing::Values(1, 2, 4),
                                            ::testing::Range<size_t>(0, 5)),
                         [](const auto& test) {
                           return std::to_string(std::get<0>(test.param)) + "RanksWindow" +
                                  std::to_string(std::get<1>(test.param)) + kTimings[std::get<2>(test.param)].name;
                         });

TEST(HybridExperts, EachStreamedExpertCrossesOneHostLinkOnceForAllRanks) {
  HybridUnderTest hybrid(cluster_spec(4, 2), {.window = 2, .share_patience_ns = kNever});
  std::vector<std::future<int64_t>> wrong;
  for (int32_t r = 0; r < 4; ++r) wrong.push_back(hybrid.start(r, 3));
  for (auto& rank : wrong) EXPECT_EQ(rank.get(), 0);
  uint64_t blobs = 0;
  for (int32_t r = 0; r < 4; ++r) blobs += hybrid.cluster.host_link(r).counts().bytes / kTestBlobBytes;
  // 5 layers of 7 experts, 8 of them on ranks. Ranks that start or end apart may make the channel turn once more.
  const uint64_t on_host = hybrid.cluster.cluster().placement().experts_on_host().size();
  EXPECT_EQ(on_host, 27U);
  EXPECT_GE(blobs, 3 * on_host);
  EXPECT_LE(blobs, 3 * on_host * 4) << "as many as if each rank had read all of them for itself";
}

TEST(HybridExperts, AnIdleRanksStreamerServesOn) {
  HybridUnderTest hybrid(cluster_spec(3, 0), {.window = 3, .share_patience_ns = kNever});
  EXPECT_EQ(hybrid.run(0, 4), 0) << "ranks 1 and 2 never run a step, and their shares are waited for";
  for (const int32_t r : {1, 2}) EXPECT_GE(hybrid.cluster.host_link(r).counts().bytes, 4 * 5 * 2 * kTestBlobBytes);
  EXPECT_EQ(hybrid.run(1, 2), 0);
  EXPECT_EQ(hybrid.run(0, 1), 0);
}

TEST(HybridExperts, ALateShareComesStraightFromTheHost) {
  HybridUnderTest hybrid(cluster_spec(2, 0), {.window = 2, .share_patience_ns = 1'000'000});
  EXPECT_EQ(hybrid.run(0, 1), 0);
  hybrid.cluster.host_link(1).stall();
  EXPECT_EQ(hybrid.run(0, 2), 0) << "rank 1's shares do not come";
  hybrid.cluster.host_link(1).resume();
  EXPECT_EQ(hybrid.run(1, 2), 0);
}

// Rank 1 takes its time over one layer: rank 0 gets at most the window and its slots further, then stands still, and
// says that it waited for a peer.
TEST(HybridExperts, SkewIsBoundedByTheWindowAndReportedAsPeerWait) {
  HybridUnderTest hybrid(cluster_spec(2, 0), {.slots = 2, .window = 2, .share_patience_ns = kNever});
  std::atomic<bool> held{true};
  hybrid.sources[1]->set_busy(true);
  hybrid.readers[1]->enqueue([&] {
    while (held) std::this_thread::sleep_for(1ms);
  });
  auto slow = hybrid.start(1, 4);
  auto fast = hybrid.start(0, 4);
  constexpr std::chrono::nanoseconds kHeld = 400ms;
  EXPECT_EQ(fast.wait_for(kHeld), std::future_status::timeout) << "rank 0 finished 20 layers ahead of rank 1";
  held = false;
  EXPECT_EQ(slow.get(), 0);
  EXPECT_EQ(fast.get(), 0);
  int64_t exposed = 0;
  int64_t peer_wait = 0;
  for (const LayerWait& wait : hybrid.sources[0]->take_waits()) {
    exposed += wait.exposed_ns;
    peer_wait += wait.peer_wait_ns;
  }
  // It takes a while until rank 0 stands, however slow the machine.
  EXPECT_GE(exposed, kHeld.count() / 2);
  EXPECT_GE(peer_wait, exposed / 2);
  EXPECT_LE(peer_wait, exposed);
}

TEST(HybridExperts, ADeadRankEndsTheOthersByName) {
  HybridUnderTest hybrid(cluster_spec(3, 0), {.window = 2, .share_patience_ns = kNever});
  EXPECT_EQ(hybrid.run(0, 1), 0);
  hybrid.sources[2]->abandon(std::make_exception_ptr(Error(ErrorCode::kDevice, "the card fell off")));
  test::expect_error([&] { (void)hybrid.run(0, 2); }, ErrorCode::kDevice, {"rank 2", "the card fell off"});
  test::expect_error([&] { (void)hybrid.run(1, 2); }, ErrorCode::kDevice, {"rank 2", "the card fell off"});
}

TEST(HybridExperts, AFailedHostLinkEndsAllByName) {
  HybridUnderTest hybrid(cluster_spec(2, 0), {.window = 2, .share_patience_ns = kNever});
  EXPECT_EQ(hybrid.run(0, 1), 0);
  hybrid.cluster.host_link(1).fail_after(0);
  test::expect_error([&] { (void)hybrid.run(0, 3); }, ErrorCode::kDevice, {"the host link of rank 1"});
}

}  // namespace
}  // namespace zp
