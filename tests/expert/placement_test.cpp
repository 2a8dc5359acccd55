// Every expert has one home, and homes are spread evenly, whatever the model, the ranks and the memory.
#include "zp/expert/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/support/errors.h"

namespace zp {
namespace {

constexpr size_t kBlob = 1000;

// Dense layers first, then layers of experts.
ModelShape shape_of(int32_t dense, int32_t moe, int32_t experts) {
  ModelShape shape;
  shape.layers = dense + moe;
  shape.experts = experts;
  shape.feed_forward.assign(static_cast<size_t>(dense), FeedForward::kDense);
  shape.feed_forward.insert(shape.feed_forward.end(), static_cast<size_t>(moe), FeedForward::kMoe);
  return shape;
}

Placement place(const ModelShape& shape, int32_t ranks, Placing placing, int64_t experts_a_rank = 0) {
  return Placement(shape, {.ranks = ranks,
                           .placing = placing,
                           .blob_bytes = kBlob,
                           .rank_bytes = static_cast<uint64_t>(experts_a_rank) * kBlob});
}

// How many experts each rank, and the host (last), has of a layer.
std::vector<int64_t> homes_in(const Placement& placement, int32_t layer) {
  std::vector<int64_t> counts(static_cast<size_t>(placement.ranks()) + 1);
  for (int32_t e = 0; e < placement.experts(); ++e) {
    const int32_t home = placement.home({layer, e});
    EXPECT_TRUE(home == Placement::kHost || (home >= 0 && home < placement.ranks()));
    ++counts[home == Placement::kHost ? counts.size() - 1 : static_cast<size_t>(home)];
  }
  return counts;
}

void expect_even(const std::vector<int64_t>& counts, const char* what) {
  if (counts.empty()) return;
  const auto [low, high] = std::ranges::minmax(counts);
  EXPECT_LE(high - low, 1) << what;
}

// All that must hold of a placement that streams; `resident` experts are to lie on ranks.
void check(const Placement& placement, const ModelShape& shape, int64_t resident) {
  const auto ranks = static_cast<size_t>(placement.ranks());
  const int32_t first = shape.layers - shape.moe_layers();
  for (int32_t e = 0; e < shape.experts; ++e) EXPECT_EQ(placement.home({first, e}), Placement::kEverywhere);
  std::vector<int64_t> of_rank(ranks);
  std::vector<int64_t> streamed_by(ranks);
  std::vector<int64_t> host_of_layer;
  for (int32_t l = first + 1; l < shape.layers; ++l) {
    std::vector<int64_t> counts = homes_in(placement, l);
    host_of_layer.push_back(counts.back());
    counts.pop_back();
    expect_even(counts, "a layer's experts over ranks");
    for (size_t r = 0; r < ranks; ++r) of_rank[r] += counts[r];
    std::vector<int64_t> shares(ranks);
    for (int32_t e = 0; e < shape.experts; ++e)
      if (placement.home({l, e}) == Placement::kHost) ++shares.at(static_cast<size_t>(placement.streamer({l, e})));
    expect_even(shares, "a layer's shares over streamers");
    for (size_t r = 0; r < ranks; ++r) streamed_by[r] += shares[r];
  }
  expect_even(of_rank, "all experts over ranks");
  expect_even(streamed_by, "all shares over streamers");
  expect_even(host_of_layer, "experts in host memory over layers");
  int64_t total = 0;
  for (const int64_t count : of_rank) total += count;
  EXPECT_EQ(total, resident);
  for (int32_t r = 0; r < placement.ranks(); ++r)
    EXPECT_EQ(static_cast<int64_t>(placement.experts_on(r).size()), shape.experts + of_rank[static_cast<size_t>(r)]);
  EXPECT_EQ(static_cast<int64_t>(placement.experts_on_host().size()),
            int64_t{shape.experts} * (shape.moe_layers() - 1) - resident);
}

constexpr std::array<int32_t, 6> kRanks = {1, 2, 3, 4, 7, 8};

TEST(Placement, GatheredExpertsHaveOneRankEach) {
  for (const int32_t experts : {1, 7, 8, 128})
    for (const int32_t ranks : kRanks)
      for (const int32_t moe : {1, 2, 5, 12}) {
        SCOPED_TRACE(testing::Message() << experts << " experts, " << ranks << " ranks, " << moe << " layers");
        const ModelShape shape = shape_of(2, moe, experts);
        check(place(shape, ranks, Placing::kGathered), shape, int64_t{experts} * (moe - 1));
      }
}

TEST(Placement, HostExpertsLieInHostMemoryButForTheFirstLayer) {
  for (const int32_t ranks : kRanks) {
    const ModelShape shape = shape_of(1, 5, 7);
    const Placement placement = place(shape, ranks, Placing::kHost);
    check(placement, shape, 0);
    EXPECT_EQ(placement.remote_max(0), 7);
    EXPECT_EQ(placement.placing(), Placing::kHost);
  }
}

TEST(Placement, HybridKeepsAsMuchAsMemoryAllowsAndTheSameOfEachLayer) {
  const ModelShape shape = shape_of(0, 6, 7);
  for (const int32_t ranks : kRanks)
    for (int64_t extra = 0; extra <= 40; ++extra) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks with room for " << extra << " experts");
      const Placement placement = place(shape, ranks, Placing::kHybrid, 7 + extra);
      check(placement, shape, std::min<int64_t>(35, extra * ranks));
      for (int32_t r = 0; r < ranks; ++r) EXPECT_LE(static_cast<int64_t>(placement.experts_on(r).size()), 7 + extra);
    }
}

TEST(Placement, AutoIsResidentOnceEverythingFits) {
  const ModelShape shape = shape_of(1, 3, 8);
  EXPECT_EQ(place(shape, 4, Placing::kAuto, 24).placing(), Placing::kResident);
  EXPECT_EQ(place(shape, 4, Placing::kAuto, 23).placing(), Placing::kGathered);
  EXPECT_EQ(place(shape, 4, Placing::kAuto, 12).placing(), Placing::kGathered);
  EXPECT_EQ(place(shape, 4, Placing::kAuto, 11).placing(), Placing::kHybrid);
  EXPECT_EQ(place(shape, 1, Placing::kAuto, 23).placing(), Placing::kHybrid);
  test::expect_error([&] { (void)place(shape, 4, Placing::kAuto, 7); }, ErrorCode::kOutOfMemory, {"7000", "8000"});
}

TEST(Placement, NothingIsStreamedWhereThereIsNothingToStream) {
  EXPECT_TRUE(place(shape_of(1, 1, 8), 4, Placing::kGathered).streamed_layers().empty());
  EXPECT_TRUE(place(shape_of(0, 4, 8), 4, Placing::kResident).streamed_layers().empty());
  EXPECT_TRUE(place(shape_of(0, 4, 8), 1, Placing::kGathered).streamed_layers().empty());
  EXPECT_EQ(place(shape_of(0, 4, 8), 1, Placing::kHost).streamed_layers().size(), 3U);
  ModelShape dense = shape_of(3, 0, 0);
  EXPECT_TRUE(Placement(dense, {.ranks = 2, .placing = Placing::kGathered}).streamed_layers().empty());
  test::expect_error([&] { (void)place(dense, 0, Placing::kGathered); }, ErrorCode::kInvalidArgument, {"ranks is 0"});
}

}  // namespace
}  // namespace zp
