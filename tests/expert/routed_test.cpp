// Fetching only what is routed to: nothing stale is read, whatever the order of modes, and nothing else is fetched.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

#include "tests/expert/experts_under_test.h"
#include "zp/expert/streamed.h"

namespace zp {
namespace {

using namespace std::chrono_literals;
using test::blob_byte;
using test::ClusterUnderTest;
using test::kTestBlobBytes;
using Fetch = StreamedExperts::Fetch;

constexpr int32_t kLayers = 6;
constexpr int32_t kExperts = 7;

// Stands for a rank whose tokens are routed at random, by an act that ends late.
class RoutedRank final {
 public:
  RoutedRank(ClusterUnderTest& cluster, int32_t rank, int32_t slots, uint32_t seed)
      : cluster_(cluster.cluster()),
        rank_(rank),
        source_(cluster.cluster(), rank, cluster.device(rank), {.slots = slots, .slice_bytes = 300, .poison = true}),
        compute_(cluster.device(rank).create_stream("compute")),
        random_(seed) {}

  void run_step(Fetch fetch) {
    source_.begin_step(fetch);
    for (int32_t l = 0; l < kLayers; ++l) {
      route();
      const ConstTensorView ids = view_of(std::as_const(ids_).data(), {2, 2});
      const auto experts =
          fetch == Fetch::kRouted ? source_.acquire_routed(l, *compute_, ids) : source_.acquire(l, *compute_);
      enqueue([this, l, experts, fetch] {
        for (int32_t e = 0; e < kExperts; ++e)
          if (fetch == Fetch::kAhead || std::ranges::count(ids_, e) > 0) read({l, e}, experts[static_cast<size_t>(e)]);
      });
      source_.release(l, *compute_);
      // The host may run ahead of a step that gathers all, but not over ids that are still to be read.
      compute_->synchronize();
    }
  }
  [[nodiscard]] int64_t wrong_experts() const { return wrong_; }
  /// Remote experts of streamed layers that were routed to, each counted once a layer.
  [[nodiscard]] int64_t routed() const { return routed_; }
  [[nodiscard]] StreamedExperts& source() { return source_; }

 private:
  void enqueue(std::function<void()> act) { dynamic_cast<cpu::CpuStream&>(*compute_).enqueue(std::move(act)); }
  void route() {
    std::array<int32_t, 4> next{};
    for (int32_t& id : next) id = static_cast<int32_t>(random_() % kExperts);
    enqueue([this, next] {
      std::this_thread::sleep_for(1ms);
      ids_ = next;
    });
    if (layer_ > 0)
      for (const int32_t e : std::set<int32_t>(next.begin(), next.end()))
        routed_ += cluster_.placement().on_rank({layer_, e}, rank_) ? 0 : 1;
    layer_ = (layer_ + 1) % kLayers;
  }
  void read(ExpertId id, const std::byte* blob) {
    for (size_t i = 0; i < kTestBlobBytes; ++i)
      if (blob[i] != blob_byte(id)) {
        ++wrong_;
        return;
      }
  }

  const ExpertCluster& cluster_;
  int32_t rank_;
  StreamedExperts source_;
  std::array<int32_t, 4> ids_{};  // the stream's thread; read by others after synchronizing
  int64_t wrong_ = 0;             // likewise
  int64_t routed_ = 0;
  int32_t layer_ = 0;
  std::unique_ptr<Stream> compute_;
  std::mt19937 random_;
};

class RoutedExpertsTest : public ::testing::TestWithParam<std::tuple<Placing, int32_t /*ranks*/, int32_t /*slots*/>> {};

TEST_P(RoutedExpertsTest, AnyOrderOfModesReadsWhatItShould) {
  const auto& [placing, ranks, slots] = GetParam();
  const LinkSpec link{.latency_ns = 50'000};
  ClusterUnderTest cluster(
      {.ranks = ranks, .layers = kLayers, .placing = placing, .peer_link = link, .host_link = link});
  const auto seed = static_cast<uint32_t>(ranks * 10 + slots);
  RoutedRank rank(cluster, ranks - 1, slots, seed);
  std::mt19937 random(seed);
  for (int32_t step = 0; step < 12; ++step) {
    // A step that sends activations leaves the ring alone.
    if (const auto mode = random() % 3; mode < 2) rank.run_step(mode == 0 ? Fetch::kAhead : Fetch::kRouted);
    ASSERT_EQ(rank.wrong_experts(), 0) << "step " << step << ", seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RoutedExpertsTest,
                         ::testing::Combine(::testing::Values(Placing::kGathered, Placing::kHost),
                                            ::testing::Values(1, 2, 3), ::testing::Values(2, 3, 4)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) == Placing::kGathered ? "Gathered" : "Host") +
                                  std::to_string(std::get<1>(test.param)) + "Ranks" +
                                  std::to_string(std::get<2>(test.param)) + "Slots";
                         });

TEST(RoutedExperts, OnlyThoseComeThatTokensAreRoutedTo) {
  ClusterUnderTest cluster({.ranks = 3, .layers = kLayers});
  RoutedRank rank(cluster, 0, 2, 1);
  rank.run_step(Fetch::kRouted);  // uses up the two layers that came ahead
  EXPECT_EQ(rank.source().take_routed().layers, kLayers - 1 - 2);
  const uint64_t bytes = cluster.peer_link(0).counts().bytes;
  const int64_t routed = rank.routed();
  for (int32_t step = 0; step < 3; ++step) rank.run_step(Fetch::kRouted);
  EXPECT_EQ(cluster.peer_link(0).counts().bytes - bytes,
            static_cast<uint64_t>(rank.routed() - routed) * kTestBlobBytes);
  const StreamedExperts::RoutedCount count = rank.source().take_routed();
  EXPECT_EQ(count.layers, 3 * (kLayers - 1));
  EXPECT_EQ(count.experts, rank.routed() - routed);
  EXPECT_EQ(rank.source().take_routed().layers, 0);
  EXPECT_EQ(rank.wrong_experts(), 0);
}

TEST(RoutedExperts, LayersThatCameAheadAreUsedWithoutALink) {
  ClusterUnderTest cluster({.ranks = 2, .layers = kLayers});
  RoutedRank rank(cluster, 0, kLayers - 1, 1);
  rank.run_step(Fetch::kAhead);
  const auto fetched = cluster.peer_link(0).counts();
  rank.run_step(Fetch::kRouted);
  const auto after = cluster.peer_link(0).counts();
  // What the first step fetched for the second one may still have been on its way.
  EXPECT_GE(after.copies, fetched.copies);
  EXPECT_EQ(rank.source().take_routed().layers, 0);
  EXPECT_EQ(rank.wrong_experts(), 0);
}

TEST(RoutedExperts, ExposedTimeIsFromTheRoutingUntilTheExpertsAreThere) {
  ClusterUnderTest cluster({.ranks = 2, .layers = kLayers, .peer_link = {.bytes_per_second = 1'000'000}});
  RoutedRank rank(cluster, 0, 2, 5);
  rank.run_step(Fetch::kRouted);
  (void)rank.source().take_waits();
  (void)rank.source().take_routed();
  rank.run_step(Fetch::kRouted);
  int64_t exposed_ns = 0;
  for (const LayerWait& wait : rank.source().take_waits()) exposed_ns += wait.exposed_ns;
  const int64_t experts = rank.source().take_routed().experts;
  ASSERT_GT(experts, 0);
  EXPECT_GE(exposed_ns, experts * 512'000) << "512 bytes at 1 MB/s each";
}

TEST(RoutedExperts, ALinksTimingIsMeasuredWithoutChangingWhatIsHere) {
  ClusterUnderTest cluster(
      {.ranks = 2, .layers = kLayers, .peer_link = {.bytes_per_second = 100'000, .latency_ns = 1'000'000}});
  RoutedRank rank(cluster, 0, 2, 1);
  const LinkTiming timing = rank.source().time_link();
  // Seven eighths of 256 bytes, on the mean, take longer than 2 ms; and no machine is so late that they take 10 times
  // that.
  EXPECT_GE(timing.bytes_per_second, 10'000);
  EXPECT_LE(timing.bytes_per_second, 1'000'000);
  EXPECT_LE(timing.copy_seconds, 0.01);
  rank.run_step(Fetch::kAhead);
  EXPECT_EQ(rank.wrong_experts(), 0);
}

}  // namespace
}  // namespace zp
