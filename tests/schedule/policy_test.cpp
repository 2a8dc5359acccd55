// Routing over several ranks: the rule on its own, and in plans.
#include "zp/schedule/policy.h"

#include <gtest/gtest.h>

#include "tests/schedule/scheduler_under_test.h"

namespace zp {
namespace {

RankChoice choice(int32_t rank, int32_t matched_blocks, double load) {
  return {.rank = rank, .eligible = true, .load_unfinished = load, .matched_blocks = matched_blocks};
}

TEST(PrefixSaturationPolicy, TakesTheLongestMatchWhateverTheLoad) {
  EXPECT_EQ(PrefixSaturationPolicy().choose({}, std::vector{choice(0, 2, 0), choice(1, 3, 99), choice(2, 1, 0)}), 1);
}

TEST(PrefixSaturationPolicy, BreaksTiesByLoadThenByRank) {
  EXPECT_EQ(PrefixSaturationPolicy().choose({}, std::vector{choice(0, 2, 5), choice(1, 2, 4), choice(2, 2, 4)}), 1);
  EXPECT_EQ(PrefixSaturationPolicy().choose({}, std::vector{choice(0, 0, 5), choice(1, 0, 4)}), 1);
}

TEST(PrefixSaturationPolicy, SpillsToTheNextBestWhenTheBestIsFull) {
  std::vector<RankChoice> ranks = {choice(0, 9, 0), choice(1, 2, 8), choice(2, 0, 0)};
  ranks[0].eligible = false;
  EXPECT_EQ(PrefixSaturationPolicy().choose({}, ranks), 1);
  ranks[1].eligible = false;
  EXPECT_EQ(PrefixSaturationPolicy().choose({}, ranks), 2);
  ranks[2].eligible = false;
  EXPECT_EQ(PrefixSaturationPolicy().choose({}, ranks), -1);
}

TEST(PrefixSaturationPolicy, WaitsForALongPrefixUnlessNothingElseWantsTheRoom) {
  const std::vector<RankChoice> ranks = {choice(0, 10, 0), choice(1, 0, 0)};
  const PrefixSaturationPolicy policy;
  constexpr int32_t kLong = PrefixSaturationPolicy::kPatienceBlocks;
  EXPECT_EQ(policy.choose({.matched_elsewhere = 10 + kLong}, ranks), -1);
  EXPECT_EQ(policy.choose({.matched_elsewhere = 10 + kLong - 1}, ranks), 0);
  EXPECT_EQ(policy.choose({.matched_elsewhere = 10 + kLong, .last_call = true}, ranks), 0);
}

TEST(PrefixSaturationPolicy, LooksFirstAtWhatSavesMost) {
  const PrefixSaturationPolicy policy;
  EXPECT_LT(policy.order_key({.tokens = 900, .uncached_tokens = 100}),
            policy.order_key({.tokens = 500, .uncached_tokens = 10}));
  EXPECT_EQ(policy.order_key({.tokens = 900, .uncached_tokens = 900}),
            policy.order_key({.tokens = 5, .uncached_tokens = 5}));
  // 4,096 tokens saved are worth eight seconds and a bit.
  const RouteRequest saves{.tokens = 5000, .uncached_tokens = 904};
  EXPECT_LT(policy.order_key(saves),
            policy.order_key({.tokens = 700, .uncached_tokens = 700, .waited_ns = 8'000'000'000}));
  EXPECT_GT(policy.order_key(saves),
            policy.order_key({.tokens = 700, .uncached_tokens = 700, .waited_ns = 9'000'000'000}));
}

TEST(PrefixSaturationPolicy, LooksBeforeAllElseAtWhatIsLongTheLongestFirst) {
  const PrefixSaturationPolicy policy;
  const auto key = [&](double share, double steps_left, int64_t saved = 0) {
    return policy.order_key({.tokens = saved, .share_left = share, .steps_left = steps_left});
  };
  constexpr double kFrom = PrefixSaturationPolicy::kLongShare;
  constexpr double kFromAtEnd = PrefixSaturationPolicy::kLongShareAtEnd;
  EXPECT_LT(key(kFrom, 9), key(0, 9, 1 << 23));
  EXPECT_LT(key(2 * kFrom, 9), key(kFrom, 9));
  EXPECT_EQ(key(0.99 * kFrom, 9), key(0, 9));
  EXPECT_LT(key(kFromAtEnd, 1.9), key(0, 1.9, 1 << 23));
  EXPECT_EQ(key(0.99 * kFromAtEnd, 1.9), key(0, 1.9));
}

// Even than a request that is all that is left for eight ranks; less than an eighth saved is in its place by tokens.
TEST(PrefixSaturationPolicy, LooksEvenBeforeThatAtWhatSavesAsMuch) {
  const PrefixSaturationPolicy policy;
  const auto key = [&](double left, double saved) {
    return policy.order_key(
        {.tokens = 1000, .uncached_tokens = 500, .share_left = left, .share_saved = saved, .steps_left = 9});
  };
  EXPECT_LT(key(0.01, 0.125), key(8, 0));
  EXPECT_LT(key(0.01, 0.5), key(0.01, 0.125));
  EXPECT_GT(key(0.01, 0.124), key(0.125, 0));
}

TEST(PrefixSaturationPolicy, PrefersWhoIsDoneFirstToWhoHasLessLeftOver) {
  std::vector<RankChoice> ranks = {choice(0, 2, 4), choice(1, 2, 9)};
  ranks[0].load_ahead = 4;
  ranks[1].load_ahead = 3;
  EXPECT_EQ(PrefixSaturationPolicy().choose({}, ranks), 1);
}

SchedulerConfig ranks_of(int32_t ranks, int64_t target) {
  return {.pool_blocks = std::vector<int32_t>(static_cast<size_t>(ranks), 256),
          .load = token_load(target),
          .step_tokens_max = 4 * target};
}

TEST(Routing, SpreadsUnrelatedRequestsByLoad) {
  SchedulerUnderTest t(ranks_of(4, 1000));
  for (uint64_t id = 0; id < 8; ++id) t.submit(id, text(static_cast<int32_t>(id), 100));
  EXPECT_EQ(ids(t.next(0)), list({0, 4}));
  EXPECT_EQ(ids(t.next(1)), list({1, 5}));
  EXPECT_EQ(ids(t.next(2)), list({2, 6}));
  EXPECT_EQ(ids(t.next(3)), list({3, 7}));
}

TEST(Routing, OnePlanGivesStepsToManyRanks) {
  SchedulerUnderTest t(ranks_of(4, 1000));
  for (uint64_t id = 0; id < 8; ++id) t.submit(id, text(static_cast<int32_t>(id), 100));
  const std::vector<int32_t> ranks = {3, 0, 1};
  const auto steps = t.scheduler.next_steps(ranks);
  t.scheduler.check_invariants();
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(ids(steps[0]), list({3, 7}));
  EXPECT_EQ(ids(steps[1]), list({0, 4}));
  EXPECT_EQ(ids(steps[2]), list({1, 5}));
  EXPECT_TRUE(t.scheduler.next_steps(ranks, StepFill::kFullOnly).empty());  // two requests would fill no step
  EXPECT_EQ(ids(t.next(2)), list({2, 6}));
}

TEST(Routing, SendsARequestToTheRankThatHoldsItsPrefix) {
  SchedulerUnderTest t(ranks_of(2, 1000));
  const std::vector<int32_t> a = text(1, 160);
  const std::vector<int32_t> b = text(2, 160);
  t.submit(1, a);
  t.submit(2, b);
  const auto first = t.next(0);
  const auto second = t.next(1);
  ASSERT_EQ(ids(first), list({1}));
  ASSERT_EQ(ids(second), list({2}));
  t.finish(first->id);
  t.finish(second->id);
  t.submit(3, joined(b, text(3, 20)));
  t.submit(4, joined(a, text(4, 20)));
  EXPECT_EQ(ids(t.next(0)), list({4}));
  const auto step = t.next(1);
  EXPECT_EQ(ids(step), list({3}));
  EXPECT_EQ(step->tokens, 20);
}

TEST(Routing, SendsARequestToTheRankThatIsAboutToHoldItsPrefix) {
  SchedulerUnderTest t(ranks_of(3, 1000));
  const std::vector<int32_t> shared = text(1, 160);
  t.submit(1, shared);
  const auto running = t.next(0);
  ASSERT_EQ(ids(running), list({1}));
  t.submit(2, joined(shared, text(2, 20)));
  EXPECT_EQ(ids(t.next(1)), list({}));
  EXPECT_EQ(ids(t.next(2)), list({}));
  const auto staged = t.next(0);
  EXPECT_EQ(ids(staged), list({2}));
  EXPECT_EQ(staged->tokens, 20);
  EXPECT_EQ(staged->relies_on, running->id);
}

TEST(Routing, AHotPrefixSpillsOnceItsRankIsAtTarget) {
  SchedulerUnderTest t(ranks_of(2, 300));
  const std::vector<int32_t> hot = text(1, 256);
  for (uint64_t id = 0; id < 8; ++id) t.submit(id, joined(hot, text(static_cast<int32_t>(10 + id), 20)));
  const auto first = t.next(0);
  EXPECT_EQ(ids(first), list({0, 1, 2}));  // 276, 296, 316 >= 300
  EXPECT_EQ(first->filled_by, StopReason::kTarget);
  const auto second = t.next(1);
  EXPECT_EQ(ids(second), list({}));  // rank 0 has room for a staged step, and it expects the prefix
  const auto staged = t.next(0);
  EXPECT_EQ(staged->hit_tokens, 5 * 256);
  t.submit(20, joined(hot, text(30, 20)));
  EXPECT_EQ(ids(t.next(1)), list({20}));  // now rank 0 has both its steps
}

// Rank 0 holds a long prefix and has both its steps. A request with that prefix waits for it while there is other work,
// and goes to rank 1 when there is none.
TEST(Routing, ALongPrefixIsWaitedForWhileThereIsOtherWork) {
  SchedulerUnderTest t({.pool_blocks = {512, 512}, .load = token_load(100), .step_tokens_max = 8000});
  const std::vector<int32_t> prefix = text(1, 16 * PrefixSaturationPolicy::kPatienceBlocks);
  t.submit(1, prefix);
  t.finish(t.next(0)->id);
  t.submit(2, joined(prefix, text(2, 100)));
  t.submit(3, joined(prefix, text(3, 100)));
  ASSERT_EQ(ids(t.next(0)), list({2}));
  ASSERT_EQ(ids(t.next(0)), list({3}));
  t.submit(4, joined(prefix, text(4, 20)));
  t.submit(5, text(5, 120));
  const auto other = t.next(1);
  EXPECT_EQ(ids(other), list({5}));
  EXPECT_EQ(other->filled_by, StopReason::kTarget);
  const auto spilled = t.next(1);
  EXPECT_EQ(ids(spilled), list({4}));
  EXPECT_EQ(spilled->hit_tokens, 0);
}

TEST(Routing, NobodyWaitsForARetiredRank) {
  SchedulerUnderTest t({.pool_blocks = {512, 512}, .load = token_load(100), .step_tokens_max = 8000});
  const std::vector<int32_t> prefix = text(1, 16 * PrefixSaturationPolicy::kPatienceBlocks);
  t.submit(1, prefix);
  t.finish(t.next(0)->id);
  EXPECT_TRUE(t.scheduler.retire_rank(0).empty());
  t.submit(2, joined(prefix, text(2, 20)));
  t.submit(3, text(3, 120));
  EXPECT_EQ(ids(t.next(1)), list({2}));
}

// However much other work there is, a request that was passed over bypass_max times stops waiting for its prefix.
TEST(Routing, WaitingForAPrefixIsBounded) {
  SchedulerUnderTest t({.pool_blocks = {512, 512}, .load = token_load(100), .step_tokens_max = 8000, .bypass_max = 3});
  const std::vector<int32_t> prefix = text(1, 16 * PrefixSaturationPolicy::kPatienceBlocks);
  t.submit(1, prefix);
  t.finish(t.next(0)->id);
  t.submit(2, joined(prefix, text(2, 100)));
  t.submit(3, joined(prefix, text(3, 100)));
  (void)t.next(0);
  (void)t.next(0);
  t.submit(4, joined(prefix, text(4, 20)));
  int others = 0;
  for (uint64_t id = 5; id < 20; ++id) {
    t.submit(id, text(static_cast<int32_t>(id), 120));
    const auto step = t.run(1);
    if (ids(step).front() == 4) break;
    ++others;
  }
  EXPECT_EQ(others, 3);
}

TEST(Routing, EveryLoadIsBetweenTargetAndTargetPlusTheLastCost) {
  SchedulerUnderTest t(ranks_of(3, 500));
  for (uint64_t id = 0; id < 60; ++id)
    t.submit(id, text(static_cast<int32_t>(id), 30 + static_cast<int32_t>(id * 7 % 50)));
  for (int32_t rank = 0; rank < 3; ++rank) {
    const auto step = t.next(rank);
    ASSERT_TRUE(step.has_value());
    EXPECT_EQ(step->filled_by, StopReason::kTarget);
    EXPECT_GE(step->load, 500);
    EXPECT_LT(step->load - step->segments.back().tokens(), 500);
  }
}

TEST(Routing, PlanningChangesNothing) {
  SchedulerUnderTest t(ranks_of(2, 100));
  t.submit(1, text(1, 64));
  t.submit(2, text(2, 64));
  const auto first = t.next(0);
  EXPECT_EQ(t.scheduler.index().pending_count(1), 0);  // rank 1's part of that plan was not committed
  EXPECT_EQ(t.scheduler.stats().queued, 1);
  EXPECT_EQ(ids(t.next(1)), list({2}));
}

}  // namespace
}  // namespace zp
