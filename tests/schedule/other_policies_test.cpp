// The policies of other systems: their rules on their own, and in plans.
#include <gtest/gtest.h>

#include "tests/schedule/scheduler_under_test.h"
#include "zp/schedule/policy.h"

namespace zp {
namespace {

std::vector<RankChoice> three() {
  return {{.rank = 0, .eligible = true}, {.rank = 1, .eligible = true}, {.rank = 2, .eligible = true}};
}

TEST(Policies, AreFoundByName) {
  EXPECT_EQ(policy_names().size(), 5U);
  for (const std::string_view name : policy_names()) {
    ASSERT_NE(make_policy(name), nullptr) << name;
    EXPECT_EQ(make_policy(name)->name(), name);
  }
  EXPECT_EQ(make_policy("best"), nullptr);
  EXPECT_EQ(make_policy(""), nullptr);
}

TEST(Policies, PassARequestOverWhenNoRankHasRoom) {
  std::vector<RankChoice> ranks = three();
  for (RankChoice& choice : ranks) choice.eligible = false;
  for (const std::string_view name : policy_names()) EXPECT_EQ(make_policy(name)->choose({}, ranks), -1) << name;
}

TEST(Policies, NeverChooseARankWithoutRoom) {
  for (const std::string_view name : policy_names()) {
    for (uint64_t sequence = 0; sequence < 6; ++sequence) {
      for (int32_t only = 0; only < 3; ++only) {
        std::vector<RankChoice> ranks = three();
        for (RankChoice& choice : ranks) choice.eligible = choice.rank == only;
        EXPECT_EQ(make_policy(name)->choose({.sequence = sequence}, ranks), only) << name;
      }
    }
  }
}

TEST(RoundRobinPolicy, TakesRanksInTurn) {
  for (uint64_t sequence = 0; sequence < 7; ++sequence)
    EXPECT_EQ(RoundRobinPolicy().choose({.sequence = sequence}, three()), static_cast<int32_t>(sequence % 3));
}

TEST(CountPolicy, CountsAWaitingRequestAsFourRunningOnes) {
  std::vector<RankChoice> ranks = three();
  ranks[0].waiting = 2;
  ranks[1].running = 9;
  ranks[2].waiting = 1;
  ranks[2].running = 3;
  EXPECT_EQ(CountPolicy().choose({}, ranks), 2);  // 8, 9, 7
  ranks[2].running = 5;
  EXPECT_EQ(CountPolicy().choose({}, ranks), 0);  // 8, 9, 9
}

TEST(CountPolicy, KnowsNeitherLengthsNorPrefixes) {
  std::vector<RankChoice> ranks = three();
  ranks[0].tokens = 1'000'000;
  ranks[0].load_unfinished = 99;
  ranks[2].matched_blocks = 50;
  EXPECT_EQ(CountPolicy().choose({}, ranks), 0);
}

TEST(LeastTokensPolicy, TakesTheFewestTokensWhateverTheCount) {
  std::vector<RankChoice> ranks = three();
  ranks[0].tokens = 500;
  ranks[1].tokens = 400;
  ranks[1].waiting = 100;
  ranks[2].tokens = 600;
  EXPECT_EQ(LeastTokensPolicy().choose({}, ranks), 1);
}

TEST(ShortestPrefillPolicy, WeighsUncachedTokensAgainstWaiting) {
  const ShortestPrefillPolicy policy;
  EXPECT_LT(policy.order_key({.tokens = 9000, .uncached_tokens = 100}),
            policy.order_key({.tokens = 200, .uncached_tokens = 200}));
  // 500 tokens a second.
  EXPECT_DOUBLE_EQ(policy.order_key({.uncached_tokens = 1600, .waited_ns = 3'000'000'000}), 100);
}

SchedulerConfig one_rank(int64_t target) {
  return {.pool_blocks = {256}, .load = token_load(target), .step_tokens_max = 4 * target};
}

TEST(ShortestPrefillPolicy, LooksAtTheShortestFirst) {
  SchedulerUnderTest t(one_rank(100), make_policy("shortest-prefill"));
  t.submit(1, text(1, 90));
  t.submit(2, text(2, 30));
  t.submit(3, text(3, 60));
  t.submit(4, text(4, 30));
  EXPECT_EQ(ids(t.next()), list({2, 4, 3}));
}

TEST(ShortestPrefillPolicy, WhatIsCachedMakesARequestShort) {
  SchedulerUnderTest t(one_rank(60), make_policy("shortest-prefill"));
  t.submit(1, text(1, 160));
  const auto first = t.run();
  ASSERT_EQ(ids(first), list({1}));
  t.submit(2, text(2, 64));
  t.submit(3, joined(text(1, 160), text(3, 20)));
  EXPECT_EQ(ids(t.next()), list({3, 2}));  // 20 uncached tokens, then 64
}

TEST(ShortestPrefillPolicy, WaitingBeatsLengthInTheEnd) {
  SchedulerUnderTest t(one_rank(50), make_policy("shortest-prefill"));
  t.submit(1, text(1, 200));
  t.clock.now = 1'000'000'000;  // 200 tokens less 500 for the second
  ScheduleRequest later = request_of(2, text(2, 20));
  later.arrival_ns = t.clock.now;
  t.submit(std::move(later));
  EXPECT_EQ(ids(t.next()), list({1}));
}

TEST(ShortestPrefillPolicy, DoesNotOverrulePrioritiesAndDeadlines) {
  SchedulerUnderTest t(one_rank(100), make_policy("shortest-prefill"));
  ScheduleRequest urgent = request_of(1, text(1, 90));
  urgent.priority = 1;
  t.submit(std::move(urgent));
  t.submit(2, text(2, 30));
  ScheduleRequest pressing = request_of(3, text(3, 80));
  pressing.deadline_ns = 5;
  t.submit(std::move(pressing));
  EXPECT_EQ(ids(t.next()), list({1, 3}));
  EXPECT_EQ(ids(t.next()), list({2}));
}

TEST(ShortestPrefillPolicy, ARequestThatWasPassedOverTooOftenGoesFirst) {
  SchedulerConfig config = one_rank(40);
  config.bypass_max = 3;
  SchedulerUnderTest t(config, make_policy("shortest-prefill"));
  t.submit(100, text(100, 39));
  int32_t before = 0;
  for (uint64_t id = 1; id < 20; ++id) {
    t.submit(2 * id, text(static_cast<int32_t>(2 * id), 20));
    t.submit(2 * id + 1, text(static_cast<int32_t>(2 * id + 1), 20));
    const auto step = t.run();
    if (ids(step).front() == 100) break;
    before += static_cast<int32_t>(step->segments.size());
  }
  EXPECT_GE(before, 3);
  EXPECT_LE(before, 4);
}

TEST(CountPolicy, InPlansCountsWhatRanksWereGiven) {
  SchedulerUnderTest t({.pool_blocks = {64, 64}, .load = token_load(1000), .step_tokens_max = 4000},
                       make_policy("vllm"));
  // By tokens the second and third would go to the other rank.
  t.submit(1, text(1, 900));
  t.submit(2, text(2, 10));
  t.submit(3, text(3, 10));
  t.submit(4, text(4, 10));
  EXPECT_EQ(ids(t.next(0)), list({1, 3}));
  EXPECT_EQ(ids(t.next(1)), list({2}));  // the fourth: two running on rank 0 are less than one waiting on rank 1,
  EXPECT_EQ(ids(t.next(0)), list({}));   // but more than one running there
  EXPECT_EQ(ids(t.next(1)), list({4}));
}

}  // namespace
}  // namespace zp
