// Gathered and host-streamed experts arrive whole and in time, and no rank waits for another.
#include "zp/expert/streamed.h"

#include <gtest/gtest.h>

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

struct RankUnderTest {
  RankUnderTest(ClusterUnderTest& cluster, int32_t rank, int32_t slots, SpanLog* spans = nullptr)
      : source(cluster.cluster(), rank, cluster.device(rank), {.slots = slots, .slice_bytes = 300, .poison = true},
               spans),
        reader(cluster.cluster(), cluster.device(rank), source) {}
  StreamedExperts source;
  ReaderUnderTest reader;
};

struct Timing {
  const char* name;
  LinkSpec link;
  std::chrono::microseconds layer_time;
};

// Slow links find out who reads too early, slow layers who overwrites too early.
const std::vector<Timing> kTimings = {
    {"FastBoth", {}, 0us}, {"SlowLinks", {.latency_ns = 100'000}, 0us}, {"SlowLayers", {}, 2000us}};

class StreamedExpertsTest
    : public ::testing::TestWithParam<std::tuple<Placing, int32_t /*ranks*/, int32_t /*slots*/, size_t /*timing*/>> {};

TEST_P(StreamedExpertsTest, EveryLayerReadsItsOwnExperts) {
  const auto& [placing, ranks, slots, timing] = GetParam();
  ClusterUnderTest cluster({.ranks = ranks,
                            .layers = 6,
                            .placing = placing,
                            .peer_link = kTimings[timing].link,
                            .host_link = kTimings[timing].link});
  std::vector<std::unique_ptr<RankUnderTest>> all;
  for (int32_t r = 0; r < ranks; ++r) all.push_back(std::make_unique<RankUnderTest>(cluster, r, slots));
  for (int32_t step = 0; step < 2; ++step)
    for (const auto& rank : all) rank->reader.issue_step(kTimings[timing].layer_time);
  for (const auto& rank : all) EXPECT_EQ(rank->reader.wrong_experts(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, StreamedExpertsTest,
                         ::testing::Combine(::testing::Values(Placing::kGathered, Placing::kHost),
                                            ::testing::Values(1, 2, 3, 4, 8), ::testing::Values(2, 3, 4),
                                            ::testing::Range<size_t>(0, 3)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) == Placing::kGathered ? "Gathered" : "Host") +
                                  std::to_string(std::get<1>(test.param)) + "Ranks" +
                                  std::to_string(std::get<2>(test.param)) + "Slots" +
                                  kTimings[std::get<3>(test.param)].name;
                         });

TEST(StreamedExperts, ReadEachRemoteExpertOnceAStep) {
  ClusterUnderTest cluster({.ranks = 4, .layers = 6});
  RankUnderTest rank(cluster, 1, 2);
  rank.reader.issue_step();
  rank.reader.issue_step();
  EXPECT_EQ(rank.reader.wrong_experts(), 0);
  int64_t remote = 0;
  for (int32_t l = 1; l < 6; ++l)
    for (int32_t e = 0; e < 7; ++e) remote += cluster.cluster().placement().on_rank({l, e}, 1) ? 0 : 1;
  // Two steps, and the first layers of the third, which are on their way: at most two slots.
  const auto bytes = static_cast<int64_t>(cluster.peer_link(1).counts().bytes / kTestBlobBytes);
  EXPECT_GE(bytes, 2 * remote);
  EXPECT_LE(bytes, 2 * remote + 2 * 7);
  EXPECT_EQ(cluster.host_link(1).counts().copies, 0);
}

TEST(StreamedExperts, OfASingleRankCrossTheHostLinkOnceAStep) {
  ClusterUnderTest cluster({.ranks = 1, .layers = 4, .placing = Placing::kHost});
  RankUnderTest rank(cluster, 0, 2);
  rank.reader.issue_step();
  EXPECT_EQ(rank.reader.wrong_experts(), 0);
  const auto blobs = cluster.host_link(0).counts().bytes / kTestBlobBytes;
  EXPECT_GE(blobs, 3U * 7U);
  EXPECT_LE(blobs, 5U * 7U);
  EXPECT_EQ(cluster.peer_link(0).counts().copies, 0);
}

// The ring never drains: what the next step needs first is fetched although no next step has been issued.
TEST(StreamedExperts, TheNextStepsFirstLayersArriveBeforeItBegins) {
  ClusterUnderTest cluster({.ranks = 2, .layers = 6});
  RankUnderTest rank(cluster, 0, 2);
  for (int32_t step = 0; step < 3; ++step) {
    // 5 streamed layers: after each step the two slots hold the next step's first two.
    int64_t expected = 0;
    for (int64_t turn = 0; turn < 5 * step + 2; ++turn)
      for (int32_t e = 0; e < 7; ++e)
        expected += cluster.cluster().placement().on_rank({static_cast<int32_t>(1 + turn % 5), e}, 0) ? 0 : 1;
    while (cluster.peer_link(0).counts().bytes < static_cast<uint64_t>(expected) * kTestBlobBytes)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(cluster.peer_link(0).counts().bytes, static_cast<uint64_t>(expected) * kTestBlobBytes);
    // Its first layers need no link any more.
    cluster.peer_link(0).stall();
    for (int32_t l = 0; l < 3; ++l) rank.reader.issue_layer(l);
    EXPECT_EQ(rank.reader.wrong_experts(), 0);
    cluster.peer_link(0).resume();
    for (int32_t l = 3; l < 6; ++l) rank.reader.issue_layer(l);
    EXPECT_EQ(rank.reader.wrong_experts(), 0);
  }
}

// The gather of layer l + 1 begins before the compute of l does, even while l computes for ever.
TEST(StreamedExperts, TheNextLayerIsGatheredWhileOneComputes) {
  ClusterUnderTest cluster({.ranks = 2, .layers = 6});
  RankUnderTest rank(cluster, 0, 2);
  rank.reader.issue_layer(0);
  std::atomic<bool> release{false};
  rank.reader.issue_layer(1);
  const auto bytes_of = [&](int32_t layer) {
    uint64_t bytes = 0;
    for (int32_t e = 0; e < 7; ++e) bytes += cluster.cluster().placement().on_rank({layer, e}, 0) ? 0 : kTestBlobBytes;
    return bytes;
  };
  EXPECT_EQ(rank.reader.wrong_experts(), 0);  // layer 1 has been computed, so layer 3 may come into its slot
  rank.reader.enqueue([&] {
    while (!release) std::this_thread::sleep_for(1ms);
  });
  rank.reader.issue_layer(2);  // will compute only once released
  const uint64_t expected = bytes_of(1) + bytes_of(2) + bytes_of(3);
  for (int32_t i = 0; i < 2000 && cluster.peer_link(0).counts().bytes < expected; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(cluster.peer_link(0).counts().bytes, expected);
  release = true;
  EXPECT_EQ(rank.reader.wrong_experts(), 0);
}

TEST(StreamedExperts, AFailedLinkStopsItsOwnRankByNameAndNoOther) {
  ClusterUnderTest cluster({.ranks = 3, .layers = 6});
  cluster.peer_link(1).fail_after(20);
  std::vector<std::unique_ptr<RankUnderTest>> all;
  for (int32_t r = 0; r < 3; ++r) all.push_back(std::make_unique<RankUnderTest>(cluster, r, 2));
  for (const auto& rank : all) rank->reader.issue_step();
  test::expect_error([&] { (void)all[1]->reader.wrong_experts(); }, ErrorCode::kDevice,
                     {"the peer link of rank 1", "copy 21"});
  for (int32_t step = 0; step < 3; ++step)
    for (const int32_t r : {0, 2}) {
      all[static_cast<size_t>(r)]->reader.issue_step();
      EXPECT_EQ(all[static_cast<size_t>(r)]->reader.wrong_experts(), 0) << "rank " << r;
    }
}

TEST(StreamedExperts, AStalledRankStopsNoOther) {
  ClusterUnderTest cluster({.ranks = 3, .layers = 6});
  cluster.peer_link(1).stall();
  std::vector<std::unique_ptr<RankUnderTest>> all;
  for (int32_t r = 0; r < 3; ++r) all.push_back(std::make_unique<RankUnderTest>(cluster, r, 2));
  all[1]->reader.issue_step();
  for (int32_t step = 0; step < 3; ++step)
    for (const int32_t r : {0, 2}) {
      all[static_cast<size_t>(r)]->reader.issue_step();
      EXPECT_EQ(all[static_cast<size_t>(r)]->reader.wrong_experts(), 0) << "rank " << r;
    }
  cluster.peer_link(1).resume();
  EXPECT_EQ(all[1]->reader.wrong_experts(), 0);
}

// 6 experts of 512 B at 1 MB/s and nothing to compute: each layer waits for its own gather. The first layer is local.
TEST(StreamedExperts, ExposedTimeIsWhatComputeWaited) {
  ClusterUnderTest cluster({.ranks = 7, .layers = 4, .peer_link = {.bytes_per_second = 1'000'000}});
  SpanLog spans(100);
  cluster.peer_link(0).stall();  // so that no gather begins before the step
  RankUnderTest rank(cluster, 0, 2, &spans);
  rank.reader.issue_step();
  cluster.peer_link(0).resume();
  EXPECT_EQ(rank.reader.wrong_experts(), 0);
  const std::vector<LayerWait> waits = rank.source.take_waits();
  ASSERT_EQ(waits.size(), 3U);
  for (size_t i = 0; i < waits.size(); ++i) {
    EXPECT_EQ(waits[i].layer, static_cast<int32_t>(i) + 1);
    EXPECT_EQ(waits[i].peer_wait_ns, 0);
  }
  const int64_t exposed = std::accumulate(waits.begin(), waits.end(), int64_t{0},
                                          [](int64_t sum, const LayerWait& wait) { return sum + wait.exposed_ns; });
  // 3 layers of 6 experts of 512 us each, less what the machine took until compute stood.
  EXPECT_GE(exposed, 3 * 6 * 512'000 / 2);
  EXPECT_TRUE(rank.source.take_waits().empty());
  int64_t gathers = 0;
  for (const Span& span : spans.finished()) {
    EXPECT_LE(span.begin_ns, span.end_ns);
    gathers += span.lane == Lane::kGather ? 1 : 0;
  }
  EXPECT_GE(gathers, 3);
}

}  // namespace
}  // namespace zp
