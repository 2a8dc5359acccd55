// How segments become rows, runs and head rows.
#include "zp/engine/step_builder.h"

#include <gtest/gtest.h>

namespace zp {
namespace {

constexpr auto kPool = BlockSource::Kind::kPool;
constexpr auto kStep = BlockSource::Kind::kStep;

std::vector<int32_t> counting(int32_t count, int32_t first) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back(first + i);
  return ids;
}

class StepBuilder : public ::testing::Test {
 protected:
  Segment& add(uint64_t request, int32_t begin, int32_t end) {
    Segment& segment = plan_.segments.emplace_back();
    segment.request = request;
    segment.begin = begin;
    segment.end = end;
    segment.row = plan_.tokens;
    plan_.tokens += end - begin;
    return segment;
  }
  ForwardStep build() {
    return build_step(
        plan_, [this](uint64_t id) { return RequestView{.tokens = tokens_[id], .candidates = candidates_[id]}; });
  }

  StepPlan plan_;
  std::vector<int32_t> tokens_[2] = {counting(100, 1000), counting(50, 2000)};
  std::vector<int32_t> candidates_[2] = {{7, 8}, {9}};
};

TEST_F(StepBuilder, RowsFollowTheSegmentsAndPositionsTheSequences) {
  add(0, 0, 3);
  add(1, 32, 34).prefix = {{kPool, 4}, {kPool, 9}};
  const ForwardStep step = build();
  EXPECT_EQ(step.ids, (std::vector<int32_t>{1000, 1001, 1002, 2032, 2033}));
  EXPECT_EQ(step.positions, (std::vector<int32_t>{0, 1, 2, 32, 33}));
  EXPECT_EQ(step.head_rows, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(step.candidates, (std::vector<int32_t>{7, 8, 9}));
  EXPECT_EQ(step.candidate_offsets, (std::vector<int64_t>{0, 2, 3}));
}

TEST_F(StepBuilder, NeighbouringPoolBlocksBecomeOneRun) {
  add(0, 80, 100).prefix = {{kPool, 4}, {kPool, 5}, {kPool, 6}, {kPool, 3}, {kPool, 4}};
  const auto runs = build().sequences[0].prefix;
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].index, 4);
  EXPECT_EQ(runs[0].tokens, 48);
  EXPECT_EQ(runs[1].index, 3);
  EXPECT_EQ(runs[1].tokens, 32);
}

TEST_F(StepBuilder, NeighbouringRowsBecomeOneRunButNeverWithPoolBlocks) {
  add(0, 64, 100).prefix = {{kPool, 0}, {kStep, 16}, {kStep, 32}, {kStep, 47}};
  const auto runs = build().sequences[0].prefix;
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].place, KvRun::Place::kPool);
  EXPECT_EQ(runs[1].place, KvRun::Place::kStep);
  EXPECT_EQ(runs[1].index, 16);
  EXPECT_EQ(runs[1].tokens, 32);
  EXPECT_EQ(runs[2].index, 47);
}

TEST_F(StepBuilder, KeptBlocksOfOneSegmentBecomeRunsOfRows) {
  add(1, 0, 5);
  add(0, 16, 100).keep = {{1, 40}, {2, 41}, {3, 50}, {5, 51}};
  plan_.segments[1].prefix = {{kPool, 0}};
  const auto keep = build().keep;
  ASSERT_EQ(keep.size(), 3U);
  EXPECT_EQ(keep[0].row, 5);
  EXPECT_EQ(keep[0].block, 40);
  EXPECT_EQ(keep[0].tokens, 32);
  EXPECT_EQ(keep[1].row, 37);  // block 3 starts at token 48, 32 after the segment's begin
  EXPECT_EQ(keep[1].tokens, 16);
  EXPECT_EQ(keep[2].row, 69);  // block 4 is not kept, so block 5 starts a run though its pool block follows
  EXPECT_EQ(keep[2].block, 51);
}

}  // namespace
}  // namespace zp
