// Which blocks are kept when there is not room for all.
#include <gtest/gtest.h>

#include "tests/schedule/scheduler_under_test.h"

namespace zp {
namespace {

SchedulerConfig config_of(int32_t pool_blocks, int64_t target = 100'000) {
  return {.pool_blocks = {pool_blocks}, .load = token_load(target), .step_tokens_max = 200'000};
}

std::vector<int32_t> blocks(int32_t stream, int32_t count) { return text(stream, count * kBlockTokens); }

TEST(Keep, EveryWholeBlockIsKeptWhileThereIsRoom) {
  SchedulerUnderTest t(config_of(16));
  t.submit(1, text(1, 70));
  const auto step = t.run();
  const auto& keep = step->segments[0].keep;
  ASSERT_EQ(keep.size(), 4U);
  for (int32_t i = 0; i < 4; ++i) EXPECT_EQ(keep[static_cast<size_t>(i)].block, i);
}

TEST(Keep, ASmallPoolKeepsTheStartOfASequence) {
  SchedulerUnderTest t(config_of(3));
  t.submit(1, blocks(1, 5));
  EXPECT_EQ(t.run()->segments[0].keep.size(), 3U);
  t.submit(2, blocks(1, 5));
  EXPECT_EQ(t.run()->hit_tokens, 48);
}

TEST(Keep, SharedBlocksOfAStepGoBeforeItsSuffixes) {
  SchedulerUnderTest t(config_of(6));
  t.submit(1, joined(blocks(9, 2), blocks(1, 3)));
  t.submit(2, blocks(2, 3));
  t.submit(3, joined(blocks(8, 4), blocks(3, 3)));
  t.submit(4, joined(blocks(8, 4), blocks(4, 3)));
  t.submit(5, joined(blocks(9, 2), blocks(5, 3)));
  const auto step = t.run();
  EXPECT_EQ(step->segments[0].keep.size(), 2U);
  EXPECT_EQ(step->segments[1].keep.size(), 0U);
  EXPECT_EQ(step->segments[2].keep.size(), 4U);
  EXPECT_EQ(step->segments[3].keep.size(), 0U);
}

TEST(Keep, BlocksThatWaitingRequestsWantGoFirst) {
  SchedulerUnderTest t(config_of(4, 100));
  t.submit(1, blocks(1, 4));
  t.submit(2, blocks(2, 4));  // with the first, above the target
  t.submit(3, joined(blocks(2, 4), blocks(3, 1)));
  const auto step = t.run();
  ASSERT_EQ(ids(step), list({1, 2}));
  EXPECT_EQ(step->segments[0].keep.size(), 0U);
  EXPECT_EQ(step->segments[1].keep.size(), 4U);
  EXPECT_EQ(t.run()->hit_tokens, 64);
}

TEST(Keep, ABurstOfOneOffRequestsLeavesAHotPrefix) {
  for (const bool keep_one_off : {true, false}) {
    SchedulerConfig config = config_of(40, 1);
    config.keep_one_off_blocks = keep_one_off;
    SchedulerUnderTest t(config);
    const std::vector<int32_t> hot = blocks(0, 32);
    uint64_t id = 0;
    t.submit(++id, hot);
    t.submit(++id, joined(hot, text(1, 5)));
    t.run();
    t.run();
    for (int32_t i = 0; i < 100; ++i) {
      t.submit(++id, blocks(100 + i, 20));
      t.run();
    }
    t.submit(++id, joined(hot, text(2, 5)));
    EXPECT_EQ(t.run()->hit_tokens, 32 * kBlockTokens);
  }
}

TEST(Keep, OneOffBlocksPushOutReusedOnesUpToTheirShare) {
  SchedulerConfig config = config_of(40, 1);
  config.one_off_share = 0.25;
  SchedulerUnderTest t(config);
  const std::vector<int32_t> hot = blocks(0, 40);
  t.submit(1, joined(hot, text(1, 5)));
  t.submit(2, joined(hot, text(2, 5)));
  t.run();
  t.run();
  ASSERT_EQ(t.scheduler.index().room(0).reused, 40);
  t.submit(3, blocks(3, 20));
  EXPECT_EQ(t.run()->segments[0].keep.size(), 10U);
  t.submit(4, blocks(4, 20));
  EXPECT_EQ(t.run()->segments[0].keep.size(), 10U);  // in the places of the earlier one-offs
  EXPECT_EQ(t.scheduler.index().room(0).reused, 30);
  EXPECT_EQ(t.scheduler.stats().evictions, 20);
}

TEST(Keep, WithoutOneOffsOnlySharedBlocksAreKept) {
  SchedulerConfig config = config_of(40);
  config.keep_one_off_blocks = false;
  SchedulerUnderTest t(config);
  t.submit(1, joined(blocks(1, 3), blocks(2, 2)));
  t.submit(2, joined(blocks(1, 3), blocks(3, 2)));
  const auto step = t.run();
  EXPECT_EQ(step->segments[0].keep.size(), 3U);
  EXPECT_EQ(step->segments[1].keep.size(), 0U);
}

TEST(Keep, NothingThatAnUnfinishedStepReadsIsGivenAway) {
  SchedulerUnderTest t(config_of(8, 1));
  t.submit(1, blocks(1, 8));
  t.run();
  t.submit(2, joined(blocks(1, 8), text(2, 5)));
  const auto reader = t.next();
  t.submit(3, blocks(3, 8));
  const auto writer = t.next();
  EXPECT_TRUE(writer->segments[0].keep.empty());
  t.finish(reader->id);
  t.finish(writer->id);
}

TEST(Keep, NothingThatTheStepItselfReadsIsGivenAway) {
  SchedulerUnderTest t(config_of(8));
  t.submit(1, blocks(1, 8));
  t.run();
  ScheduleRequest writer = request_of(2, blocks(2, 8));
  writer.priority = 1;  // or the reader, which saves more, would be the first segment
  t.submit(std::move(writer));
  t.submit(3, joined(blocks(1, 8), text(2, 5)));
  const auto step = t.next();
  EXPECT_EQ(step->segments[1].prefix.size(), 8U);
  EXPECT_TRUE(step->segments[0].keep.empty());
}

}  // namespace
}  // namespace zp
