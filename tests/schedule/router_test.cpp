// Lanes under policies that assign on arrival: whose queue a request is in, and what happens to it when ranks end.
#include "zp/schedule/router.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/schedule/scheduler_under_test.h"

namespace zp {
namespace {

SchedulerConfig config_of(int32_t ranks, int64_t target = 100) {
  return {.pool_blocks = std::vector<int32_t>(static_cast<size_t>(ranks), 100),
          .load = token_load(target),
          .step_tokens_max = 4 * target};
}

class RouterUnderTest {
 public:
  RouterUnderTest(int32_t ranks, std::string_view policy, int64_t target = 100)
      : router(filled_to_target(config_of(ranks, target)), tiny_shape(), clock, policy) {}

  // `count` unrelated requests of 100 tokens, numbered on.
  void submit(int32_t count, int32_t tokens = 100) {
    for (int32_t i = 0; i < count; ++i) {
      ++last;
      ASSERT_EQ(router.submit(request_of(last, text(static_cast<int32_t>(last), tokens))), SubmitResult::kAccepted);
    }
  }
  std::vector<StepPlan> idle() { return checked(router.steps_for_idle()); }
  std::vector<StepPlan> rest() { return checked(router.steps_for_rest()); }
  std::vector<StepPlan> busy() { return checked(router.steps_for_busy()); }

  ManualClock clock;
  Router router;
  uint64_t last = 0;

 private:
  std::vector<StepPlan> checked(std::vector<StepPlan> plans) {
    router.check_invariants();
    return plans;
  }
};

std::vector<uint64_t> requests_of(const std::vector<StepPlan>& plans, int32_t rank) {
  for (const StepPlan& plan : plans)
    if (plan.rank == rank) return ids(plan);
  return {};
}

TEST(Router, HasALaneForEachRankOnlyUnderPoliciesThatAssignOnArrival) {
  EXPECT_EQ(RouterUnderTest(3, "prefix-saturation").router.lanes(), 1);
  for (const std::string_view policy : {"round-robin", "vllm", "least-tokens", "shortest-prefill"})
    EXPECT_EQ(RouterUnderTest(3, policy).router.lanes(), 3) << policy;
}

TEST(Router, EveryIdleRankGetsAStepBeforeAnyGetsTwo) {
  for (const std::string_view policy : policy_names()) {
    SCOPED_TRACE(policy);
    RouterUnderTest t(3, policy);
    t.submit(3);
    EXPECT_EQ(t.idle().size(), 3U);
    t.submit(4);
    EXPECT_TRUE(t.idle().empty()) << "nobody is idle";
    EXPECT_EQ(t.busy().size(), 3U);
    EXPECT_TRUE(t.busy().empty()) << "one running, one staged";
  }
}

TEST(Router, ABusyRankGetsFullStepsOnly) {
  for (const std::string_view policy : {"prefix-saturation", "round-robin"}) {
    SCOPED_TRACE(policy);
    RouterUnderTest t(1, policy);
    t.submit(1);
    ASSERT_EQ(t.idle().size(), 1U);
    t.submit(1, 40);
    EXPECT_TRUE(t.busy().empty());
    t.submit(1, 60);
    EXPECT_EQ(t.busy().size(), 1U);
  }
}

TEST(Router, RoundRobinDealsOutWhatArrives) {
  RouterUnderTest t(3, "round-robin", 1000);
  t.submit(7);
  const auto plans = t.idle();
  EXPECT_EQ(requests_of(plans, 0), list({1, 4, 7}));
  EXPECT_EQ(requests_of(plans, 1), list({2, 5}));
  EXPECT_EQ(requests_of(plans, 2), list({3, 6}));
}

// vLLM's score: 4 x waiting + running. Rank 0 has one running and none waiting (1), rank 1 one of each (5).
TEST(Router, CountsWhatRunsAndWhatWaits) {
  RouterUnderTest t(2, "vllm");
  t.submit(4);
  const auto first = t.idle();  // 1 and 2 run, 3 and 4 wait
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(t.router.cancel(3), CancelResult::kRemoved);
  EXPECT_EQ(t.router.assign(100), 0);
  EXPECT_EQ(t.router.assign(100), 0) << "a tie: the first";
  EXPECT_EQ(t.router.assign(100), 1);
}

TEST(Router, LeastTokensForgetsWhatHasLeft) {
  RouterUnderTest t(2, "least-tokens");
  t.submit(1, 100);
  t.submit(1, 60);
  EXPECT_EQ(t.router.submit(request_of(3, text(3, 30))), SubmitResult::kAccepted);  // rank 1: 90
  const auto plans = t.idle();
  ASSERT_EQ(requests_of(plans, 1), list({2, 3}));
  t.router.finish_step(plans[1].id, StepOutcome::kDone);  // rank 1: 0
  t.router.check_invariants();
  EXPECT_EQ(t.router.assign(99), 1);
  EXPECT_EQ(t.router.assign(1), 1);
  EXPECT_EQ(t.router.assign(1), 0) << "100 against 100: the first";
}

TEST(Router, StepsOfAllLanesHaveDifferentNumbers) {
  RouterUnderTest t(3, "round-robin");
  t.submit(12);
  std::set<uint64_t> numbers;
  for (int32_t round = 0; round < 2; ++round) {
    std::vector<StepPlan> plans = t.idle();
    for (StepPlan& plan : t.busy()) plans.push_back(std::move(plan));
    for (const StepPlan& plan : plans) EXPECT_TRUE(numbers.insert(plan.id).second);
    for (const StepPlan& plan : plans) EXPECT_TRUE(t.router.finish_step(plan.id, StepOutcome::kDone).empty());
  }
  EXPECT_EQ(numbers.size(), 12U);
}

TEST(Router, ANumberTwiceIsRefusedInAnyLaneAndLeavesNoTrace) {
  RouterUnderTest t(2, "vllm");
  t.submit(1);
  EXPECT_EQ(t.router.submit(request_of(1, text(9, 10))), SubmitResult::kDuplicateId);
  EXPECT_EQ(t.router.submit(request_of(2, text(9, 200'000))), SubmitResult::kTooLong);
  EXPECT_EQ(t.router.assign(10), 1) << "neither counts as waiting";
}

TEST(Router, ARetiredRanksRequestsGoToTheOthersAndNothingGoesToIt) {
  for (const std::string_view policy : policy_names()) {
    SCOPED_TRACE(policy);
    RouterUnderTest t(3, policy);
    t.submit(9);
    std::vector<StepPlan> plans = t.idle();
    for (StepPlan& plan : t.busy()) plans.push_back(std::move(plan));
    ASSERT_EQ(plans.size(), 6U);
    const uint64_t cancelled = requests_of(plans, 1).front();
    EXPECT_EQ(t.router.cancel(cancelled), CancelResult::kInStep);
    EXPECT_EQ(t.router.retire_rank(1).size(), 2U);
    t.router.check_invariants();
    std::set<uint64_t> done;
    while (!plans.empty()) {
      for (const StepPlan& plan : plans) {
        if (plan.rank == 1) continue;
        for (const uint64_t id : ids(plan)) EXPECT_TRUE(done.insert(id).second) << id;
        t.router.finish_step(plan.id, StepOutcome::kDone);
      }
      plans = t.idle();
      for (const StepPlan& plan : plans) EXPECT_NE(plan.rank, 1);
    }
    EXPECT_EQ(done.size(), 8U);
    EXPECT_FALSE(done.contains(cancelled));
    EXPECT_EQ(t.router.cancel(cancelled), CancelResult::kUnknown);
  }
}

TEST(Router, WhatARetiredRankLeavesIsTakenOverByFullQueuesToo) {
  for (const std::string_view policy : policy_names()) {
    SCOPED_TRACE(policy);
    SchedulerConfig config = filled_to_target(config_of(2));
    config.queue_max = 3;
    ManualClock clock;
    Router router(config, tiny_shape(), clock, policy);
    // One lane holds three, two hold three each.
    const auto last = static_cast<uint64_t>(3 * router.lanes());
    for (uint64_t id = 1; id <= last; ++id)
      ASSERT_EQ(router.submit(request_of(id, text(static_cast<int32_t>(id), 100))), SubmitResult::kAccepted);
    EXPECT_TRUE(router.retire_rank(1).empty());
    router.check_invariants();
    EXPECT_EQ(router.queued(0), static_cast<int32_t>(last));
    EXPECT_EQ(router.submit(request_of(100, text(100, 100))), SubmitResult::kQueueFull) << "what is new is refused";
    std::set<uint64_t> done;
    for (auto plans = router.steps_for_idle(); !plans.empty(); plans = router.steps_for_idle())
      for (const StepPlan& plan : plans) {
        for (const uint64_t id : ids(plan)) EXPECT_TRUE(done.insert(id).second) << id;
        router.finish_step(plan.id, StepOutcome::kDone);
      }
    EXPECT_EQ(done.size(), last);
  }
}

TEST(Router, AFailedStepRecallsWhatReliedOnItInItsOwnLane) {
  RouterUnderTest t(2, "round-robin");
  // Both of rank 0: the second reads the first's blocks.
  ASSERT_EQ(t.router.submit(request_of(1, text(1, 160))), SubmitResult::kAccepted);
  ASSERT_EQ(t.router.submit(request_of(2, text(2, 160))), SubmitResult::kAccepted);
  ASSERT_EQ(t.router.submit(request_of(3, joined(text(1, 160), text(3, 120)))), SubmitResult::kAccepted);
  const auto running = t.idle();
  const auto staged = t.busy();
  ASSERT_EQ(staged.size(), 1U);
  EXPECT_EQ(staged[0].relies_on, running[0].id);
  EXPECT_EQ(t.router.finish_step(running[0].id, StepOutcome::kFailed), list({staged[0].id}));
  t.router.check_invariants();
  EXPECT_EQ(t.router.queued(0), 1);
  EXPECT_EQ(t.router.unfinished_steps(0), 0);
  EXPECT_EQ(t.router.unfinished_steps(1), 1);
}

}  // namespace
}  // namespace zp
