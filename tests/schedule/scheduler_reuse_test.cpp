// What is computed and what is reused: exact token counts and exact sources.
#include <gtest/gtest.h>

#include "tests/schedule/scheduler_under_test.h"

namespace zp {
namespace {

constexpr int32_t kPrefix = 4096;

SchedulerConfig config_of(int32_t pool_blocks, int64_t target = 100'000) {
  return {.pool_blocks = {pool_blocks}, .load = token_load(target), .step_tokens_max = 200'000};
}

// Ten requests of 4096 shared tokens and suffixes of 21, 22, ... tokens: 255 of them in all.
constexpr int64_t kSuffixes = 255;
std::vector<int32_t> tenth(int32_t i) { return joined(text(0, kPrefix), text(1 + i, 21 + i)); }

TEST(Reuse, TenRequestsAtOnceCostOnePrefixAndTenSuffixes) {
  for (const int32_t pool_blocks : {0, 10, 1000}) {
    SCOPED_TRACE(testing::Message() << "pool of " << pool_blocks);
    SchedulerUnderTest t(config_of(pool_blocks));
    for (int32_t i = 0; i < 10; ++i) t.submit(static_cast<uint64_t>(i), tenth(i));
    const auto step = t.run();
    ASSERT_EQ(step->segments.size(), 10U);
    EXPECT_EQ(step->tokens, kPrefix + kSuffixes);
    EXPECT_EQ(step->hit_tokens, 9 * kPrefix);
    for (size_t i = 1; i < 10; ++i) {
      const Segment& segment = step->segments[i];
      ASSERT_EQ(segment.prefix.size(), kPrefix / kBlockTokens);
      for (size_t b = 0; b < segment.prefix.size(); ++b)
        EXPECT_EQ(segment.prefix[b], (BlockSource{BlockSource::Kind::kStep, static_cast<int64_t>(b) * kBlockTokens}));
    }
  }
}

TEST(Reuse, TenRequestsOneAfterAnotherCostOnePrefixAndTenSuffixes) {
  SchedulerUnderTest t(config_of(1000));
  int64_t tokens = 0;
  std::vector<BlockStore> kept;
  for (int32_t i = 0; i < 10; ++i) {
    t.submit(static_cast<uint64_t>(i), tenth(i));
    const auto step = t.run();
    ASSERT_EQ(ids(step), list({static_cast<uint64_t>(i)}));
    tokens += step->tokens;
    const Segment& segment = step->segments.front();
    if (i == 0) kept = segment.keep;
    ASSERT_EQ(segment.begin, i == 0 ? 0 : kPrefix);
    for (size_t b = 0; b < segment.prefix.size(); ++b)
      EXPECT_EQ(segment.prefix[b], (BlockSource{BlockSource::Kind::kPool, kept[b].pool_block}));
  }
  EXPECT_EQ(tokens, kPrefix + kSuffixes);
  EXPECT_EQ(t.scheduler.stats().computed_tokens, tokens);
}

TEST(Reuse, AStagedStepReadsWhatTheRunningOnePromised) {
  SchedulerUnderTest t(config_of(1000, 1));
  t.submit(0, tenth(0));
  t.submit(1, tenth(1));
  const auto running = t.next();
  const auto staged = t.next();
  EXPECT_EQ(staged->tokens, 22);
  EXPECT_EQ(staged->relies_on, running->id);
  EXPECT_EQ(staged->segments[0].prefix[5],
            (BlockSource{BlockSource::Kind::kPool, running->segments[0].keep[5].pool_block}));
  t.finish(running->id);
  t.submit(2, tenth(2));
  EXPECT_EQ(t.next()->relies_on, std::nullopt);  // the prefix is committed now
}

TEST(Reuse, WithoutAPoolNothingOutlivesItsStep) {
  SchedulerUnderTest t(config_of(0));
  for (int32_t i = 0; i < 2; ++i) {
    t.submit(static_cast<uint64_t>(i), tenth(i));
    const auto step = t.run();
    EXPECT_EQ(step->tokens, kPrefix + 21 + i);
    EXPECT_TRUE(step->segments[0].keep.empty());
  }
  EXPECT_EQ(t.scheduler.index().tree().size(), 0);
}

TEST(Reuse, AtLeastOneTokenIsComputed) {
  for (const int32_t count : {15, 16, 17, 31, 32, 33, 48}) {
    SCOPED_TRACE(count);
    SchedulerUnderTest t(config_of(100));
    t.submit(1, text(1, count));
    t.submit(2, text(1, count));
    const auto both = t.run();
    const int32_t reused = (count - 1) / kBlockTokens * kBlockTokens;
    EXPECT_EQ(both->segments[1].begin, reused);
    EXPECT_EQ(both->segments[1].end, count);
    t.submit(3, text(1, count));
    const auto again = t.run();
    EXPECT_EQ(again->tokens, count - reused);
    EXPECT_TRUE(again->segments[0].keep.empty());  // its last block is kept already
  }
}

TEST(Reuse, ALongerRequestReusesAllBlocksOfAShorterOne) {
  SchedulerUnderTest t(config_of(100));
  t.submit(1, text(1, 40));
  t.submit(2, text(1, 90));
  t.submit(3, text(1, 64));
  const auto step = t.run();
  EXPECT_EQ(step->segments[1].begin, 32);
  EXPECT_EQ(step->segments[2].begin, 48);
  EXPECT_EQ(step->tokens, 40 + 58 + 16);
  EXPECT_EQ(step->segments[2].prefix[1], (BlockSource{BlockSource::Kind::kStep, 16}));  // from the first segment
  EXPECT_EQ(step->segments[2].prefix[2], (BlockSource{BlockSource::Kind::kStep, 40}));  // from the second
}

TEST(Reuse, NamespacesShareNothing) {
  SchedulerUnderTest t(config_of(100));
  t.submit(request_of(1, text(1, 64), "a"));
  t.submit(request_of(2, text(1, 64), "b"));
  EXPECT_EQ(t.run()->tokens, 128);
}

TEST(Reuse, ACollisionOfHashesIsNoReuse) {
  SchedulerUnderTest t(config_of(100));
  const auto colliding = [](uint64_t id, std::vector<int32_t> tokens, std::string cache_namespace) {
    BlockChain chain(cache_namespace, tokens, [](BlockHash, std::span<const int32_t>) { return BlockHash{}; });
    ScheduleRequest request = request_of(id, std::move(tokens), std::move(cache_namespace));
    request.chain = std::move(chain);
    return request;
  };
  t.submit(colliding(1, text(1, 64), "a"));
  t.submit(colliding(2, text(2, 64), "a"));
  t.submit(colliding(3, text(1, 64), "b"));
  EXPECT_EQ(t.run()->hit_tokens, 0);
  t.submit(colliding(4, text(2, 64), "a"));
  EXPECT_EQ(t.run()->hit_tokens, 48);
}

TEST(Reuse, ASequencesBlocksLieTogether) {
  SchedulerUnderTest t(config_of(64));
  t.submit(1, text(1, 5 * kBlockTokens));
  t.submit(2, text(2, 16 * kBlockTokens));
  const auto step = t.run();
  const auto& keep = step->segments[1].keep;
  ASSERT_EQ(keep.size(), 16U);
  for (size_t i = 0; i < 16; ++i)
    EXPECT_EQ(keep[i].pool_block, keep[i / 8 * 8].pool_block + static_cast<BlockId>(i % 8));
}

}  // namespace
}  // namespace zp
