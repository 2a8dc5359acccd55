// Plans bring each remote expert once, whole, and not all ranks from one source at a time.
#include "zp/expert/gather_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace zp {
namespace {

ModelShape shape_of(int32_t layers, int32_t experts) {
  ModelShape shape;
  shape.layers = layers;
  shape.experts = experts;
  shape.feed_forward.assign(static_cast<size_t>(layers), FeedForward::kMoe);
  return shape;
}

// The bytes [slot_offset, +size) that the pulls of each expert cover, in order of offset.
void expect_whole(const GatherPlan& plan, size_t blob_bytes, size_t slice_bytes) {
  std::map<int32_t, std::set<std::pair<size_t, size_t>>> pieces;
  for (const auto* pulls : {&plan.resident, &plan.from_host})
    for (const Pull& pull : *pulls) {
      EXPECT_LE(pull.size_bytes, slice_bytes);
      EXPECT_TRUE(pieces[pull.expert].emplace(pull.offset, pull.size_bytes).second) << "pulled twice";
    }
  EXPECT_EQ(pieces.size(), plan.places.size());
  std::set<size_t> offsets;
  for (const GatherPlan::Place& place : plan.places) {
    EXPECT_TRUE(offsets.insert(place.slot_offset).second) << "two experts in one place";
    EXPECT_EQ(place.slot_offset % blob_bytes, 0U);
    size_t next = 0;
    for (const auto& [offset, size] : pieces[place.expert]) {
      EXPECT_EQ(offset, next);
      next += size;
    }
    EXPECT_EQ(next, blob_bytes);
  }
}

TEST(GatherPlan, BringsEachRemoteExpertOnceAndWhole) {
  for (const int32_t ranks : {1, 2, 3, 4, 8})
    for (const Placing placing : {Placing::kGathered, Placing::kHost, Placing::kHybrid})
      for (const size_t slice : {256, 700, 4096}) {
        const Placement placement(shape_of(4, 7), {ranks, placing, 1024, 10 * 1024});
        for (int32_t layer = 0; layer < 4; ++layer)
          for (int32_t rank = 0; rank < ranks; ++rank) {
            const GatherPlan plan = plan_gather(placement, layer, rank, {1024, slice});
            size_t remote = 0;
            for (int32_t e = 0; e < 7; ++e) remote += placement.on_rank({layer, e}, rank) ? 0 : 1;
            EXPECT_EQ(plan.places.size(), remote);
            expect_whole(plan, 1024, slice);
          }
      }
}

TEST(GatherPlan, NoTwoRanksPullTheirSameNumberedSliceFromOneSource) {
  const Placement placement(shape_of(3, 16), {4, Placing::kGathered, 4096, 0});
  std::vector<GatherPlan> plans;
  for (int32_t rank = 0; rank < 4; ++rank) plans.push_back(plan_gather(placement, 1, rank, {4096, 1024}));
  for (size_t i = 0; i < plans[0].resident.size(); ++i) {
    std::set<int32_t> sources;
    for (int32_t rank = 0; rank < 4; ++rank) {
      const Pull& pull = plans[static_cast<size_t>(rank)].resident[i];
      EXPECT_NE(pull.source, rank);
      sources.insert(pull.source);
    }
    EXPECT_EQ(sources.size(), 4U) << "slice " << i;
  }
  EXPECT_EQ(plans[2].resident.front().source, 3);
}

}  // namespace
}  // namespace zp
