// Times of transfers against hand-computed ones, and the spreading of experts against the engine's own placement.
#include "zp/shape/transfer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "zp/expert/placement.h"
#include "zp/shape/flops.h"
#include "zp/shape/known_models.h"

namespace zp {
namespace {

const ModelShape& large() { return find_known_model("Qwen3-235B-A22B")->shape; }
const ModelShape& small() { return find_known_model("Qwen3-30B-A3B")->shape; }

ExpertSpread spread(const ModelShape& shape, int32_t ranks, int64_t element_bytes, uint64_t rank_bytes) {
  return spread_experts(shape, {.ranks = ranks,
                                .expert_bytes = expert_bytes(shape, element_bytes),
                                .rank_bytes = rank_bytes,
                                .resident_bytes = rank_bytes});
}

constexpr uint64_t kMuch = uint64_t{100} << 30;

// 128 experts of 3 * 4096 * 1536 * 2 bytes are 4.83 GB a layer; at 350 GB/s a rank of 2, 4, 8 receives 1/2, 3/4, 7/8 of
// them in 6.9, 10.4, 12.1 ms; Qwen3-30B-A3B, a quarter of that, in 1.7, 2.6, 3.0 ms.
TEST(LayerTransfer, GathersAtTheRateOfThePeerLink) {
  const LinkRates links{.peer = 350e9, .host = 52e9};
  const auto milliseconds = [&](const ModelShape& shape, int32_t ranks, uint64_t rank_bytes) {
    const LayerTransfer transfer = layer_transfer(spread(shape, ranks, 2, rank_bytes), links, 4);
    EXPECT_EQ(transfer.host_seconds, 0);
    return transfer.seconds() * 1e3;
  };
  EXPECT_NEAR(milliseconds(large(), 4, uint64_t{125} << 30), 10.4, 0.05);
  EXPECT_NEAR(milliseconds(large(), 8, kMuch), 12.1, 0.05);
  EXPECT_NEAR(milliseconds(small(), 2, uint64_t{40} << 30), 1.7, 0.05);
  EXPECT_NEAR(milliseconds(small(), 4, uint64_t{40} << 30), 2.6, 0.05);
  EXPECT_NEAR(milliseconds(small(), 8, uint64_t{40} << 30), 3.0, 0.05);
}

// Nothing but the first layer fits: 4.83 GB at 52 GB/s are 93 ms, 46 ms in fp8; 1.21 GB are 23 ms and 12 ms.
TEST(LayerTransfer, StreamsAtTheRateOfTheHostLink) {
  const LinkRates links{.peer = 0, .host = 52e9};
  const auto milliseconds = [&](const ModelShape& shape, int64_t element_bytes) {
    const ExpertSpread all_on_host =
        spread(shape, 1, element_bytes, static_cast<uint64_t>(layer_expert_bytes(shape, element_bytes)));
    EXPECT_EQ(all_on_host.spreading, ExpertSpreading::kHost);
    return layer_transfer(all_on_host, links, 1).seconds() * 1e3;
  };
  EXPECT_NEAR(milliseconds(large(), 2), 93, 0.5);
  EXPECT_NEAR(milliseconds(large(), 1), 46, 0.5);
  EXPECT_NEAR(milliseconds(small(), 2), 23, 0.5);
  EXPECT_NEAR(milliseconds(small(), 1), 12, 0.5);
}

TEST(LayerTransfer, OfResidentExpertsIsNothing) {
  const ExpertSpread all = spread(small(), 4, 2, kMuch);
  EXPECT_EQ(all.spreading, ExpertSpreading::kResident);
  EXPECT_EQ(all.rank_experts, 48 * 128);
  EXPECT_EQ(layer_transfer(all, {}, 1).seconds(), 0);
}

// The other layers hold 3 experts in host memory each, the first MoE layer none: over a window of all 3 layers, 6
// experts on the mean of 3 layers; over one layer, 3.
TEST(LayerTransfer, IsAmortisedOverTheWindow) {
  const ExpertSpread spread{.spreading = ExpertSpreading::kHost,
                            .ranks = 1,
                            .experts = 8,
                            .expert_bytes = 10,
                            .host_experts = 6,
                            .remote = {0, 3, 3},
                            .host_by_layer = {0, 3, 3}};
  EXPECT_DOUBLE_EQ(layer_transfer(spread, {.peer = 0, .host = 100}, 1).host_seconds, 0.3);
  EXPECT_DOUBLE_EQ(layer_transfer(spread, {.peer = 0, .host = 100}, 2).host_seconds, 0.3);
  EXPECT_DOUBLE_EQ(layer_transfer(spread, {.peer = 0, .host = 100}, 3).host_seconds, 0.2);
  EXPECT_DOUBLE_EQ(layer_transfer(spread, {.peer = 0, .host = 100}, 99).host_seconds, 0.2);
}

// Both channels work at once: half of each layer lies on 4 ranks, half in host memory, and each rank streams a quarter
// of the latter and pulls three quarters of everything.
TEST(LayerTransfer, OfTheHybridModeIsTheSlowerChannels) {
  const int64_t bytes = expert_bytes(small(), 2);
  const uint64_t rank_bytes = static_cast<uint64_t>(bytes) * (128 + 47 * 64 / 4);
  const ExpertSpread half = spread(small(), 4, 2, rank_bytes);
  EXPECT_EQ(half.spreading, ExpertSpreading::kHybrid);
  EXPECT_EQ(half.host_experts, 47 * 64);
  const LayerTransfer transfer = layer_transfer(half, {.peer = 350e9, .host = 52e9}, 1);
  EXPECT_NEAR(transfer.peer_seconds, 96.0 * static_cast<double>(bytes) / 350e9, 1e-12);
  EXPECT_NEAR(transfer.host_seconds, 16.0 * static_cast<double>(bytes) / 52e9, 1e-12);
  EXPECT_EQ(transfer.seconds(), transfer.host_seconds);
}

TEST(SpreadExperts, AgreesWithTheEnginesPlacement) {
  const ModelShape& shape = small();
  const auto bytes = static_cast<uint64_t>(expert_bytes(shape, 2));
  for (const int32_t ranks : {1, 2, 3, 8}) {
    for (const uint64_t room : {128UL, 129UL, 700UL, 2000UL, 4000UL, 6143UL, 6144UL}) {
      const ExpertSpread counted = spread(shape, ranks, 2, room * bytes + 5);
      const Placement placed(
          shape, {.ranks = ranks, .placing = Placing::kAuto, .blob_bytes = bytes, .rank_bytes = room * bytes + 5});
      EXPECT_EQ(counted.host_experts, std::ssize(placed.experts_on_host())) << ranks << " " << room;
      int64_t most = 0;
      int32_t remote = 0;
      for (int32_t rank = 0; rank < ranks; ++rank) {
        most = std::max<int64_t>(most, std::ssize(placed.experts_on(rank)));
        remote = std::max(remote, placed.remote_max(rank));
      }
      EXPECT_EQ(counted.rank_experts, most) << ranks << " " << room;
      EXPECT_EQ(*std::ranges::max_element(counted.remote), remote) << ranks << " " << room;
      EXPECT_EQ(counted.streamed_layers(), std::ssize(placed.streamed_layers())) << ranks << " " << room;
    }
  }
}

// Whether or not another layer is dense.
TEST(SpreadExperts, AgreesWithTheEnginesPlacementOfOneLayer) {
  for (const int32_t layers : {1, 2}) {
    ModelShape shape = small();
    shape.layers = layers;
    shape.feed_forward.assign(static_cast<size_t>(layers), FeedForward::kDense);
    shape.feed_forward.back() = FeedForward::kMoe;
    const int64_t bytes = expert_bytes(shape, 2);
    const auto layer = static_cast<uint64_t>(bytes * shape.experts);
    for (const int32_t ranks : {1, 2, 3}) {
      const ExpertSpread counted =
          spread_experts(shape, {.ranks = ranks, .expert_bytes = bytes, .rank_bytes = layer, .resident_bytes = 0});
      EXPECT_EQ(counted.spreading, ExpertSpreading::kResident);
      EXPECT_EQ(counted.host_experts, 0);
      for (const Placing placing : {Placing::kGathered, Placing::kHost, Placing::kHybrid, Placing::kAuto}) {
        const Placement placed(
            shape, {.ranks = ranks, .placing = placing, .blob_bytes = static_cast<size_t>(bytes), .rank_bytes = layer});
        EXPECT_EQ(placed.placing(), Placing::kResident);
        EXPECT_EQ(counted.rank_experts, std::ssize(placed.experts_on(0)));
        EXPECT_EQ(counted.streamed_layers(), std::ssize(placed.streamed_layers()));
      }
    }
  }
}

}  // namespace
}  // namespace zp
