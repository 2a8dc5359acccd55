// The end of the queue: even last steps, and what is done with a rest whose prefix lies on a busy rank.
#include "zp/schedule/step_targets.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/schedule/scheduler_under_test.h"
#include "zp/schedule/router.h"

namespace zp {
namespace {

SchedulerConfig ranks_of(int32_t ranks, int64_t step_tokens_max = 400) {
  return {.pool_blocks = std::vector<int32_t>(static_cast<size_t>(ranks), 256),
          .load = token_load(100),
          .step_tokens_max = step_tokens_max};
}

class EvenLastSteps : public testing::Test {
 protected:
  void make(const SchedulerConfig& config) {
    t_.emplace(SchedulerUnderTest::WithEvenLastSteps(), config);
    ranks_.resize(config.pool_blocks.size());
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  // Of ten tokens each, with nothing in common.
  void submit(int32_t count) {
    for (int32_t i = 0; i < count; ++i, ++last_) t_->submit(last_, text(static_cast<int32_t>(last_), 10));
  }
  std::vector<StepPlan> next_steps(StepFill fill = StepFill::kAny) {
    std::vector<StepPlan> steps = t_->scheduler.next_steps(ranks_, fill);
    t_->scheduler.check_invariants();
    return steps;
  }
  static std::vector<double> loads(const std::vector<StepPlan>& steps) {
    std::vector<double> loads;
    for (const StepPlan& step : steps) loads.push_back(step.load);
    return loads;
  }

  std::optional<SchedulerUnderTest> t_;
  std::vector<int32_t> ranks_;
  uint64_t last_ = 1;
};

TEST_F(EvenLastSteps, LessThanTwoStepsARankAreOneStep) {
  make(ranks_of(2));
  submit(30);
  EXPECT_EQ(loads(next_steps()), (std::vector<double>{150, 150}));
}

TEST_F(EvenLastSteps, TwoStepsARankAndMoreAreFilledToTheTarget) {
  make(ranks_of(2));
  submit(41);
  EXPECT_EQ(loads(next_steps()), (std::vector<double>{100, 100}));
}

TEST_F(EvenLastSteps, WhatWaitsBeyondTheLookAheadIsNoEnd) {
  SchedulerConfig config = ranks_of(2);
  config.look_ahead = 29;
  make(config);
  submit(30);
  EXPECT_EQ(loads(next_steps()), (std::vector<double>{100, 100}));
}

TEST_F(EvenLastSteps, AreTwoWhereOneWouldHaveTooManyTokens) {
  SchedulerConfig config = ranks_of(2, 150);
  config.load.floor = 80;
  make(config);
  submit(38);
  // 190 are left for each: 95, filled by tens.
  EXPECT_EQ(loads(next_steps()), (std::vector<double>{100, 100}));
  EXPECT_EQ(loads(next_steps()), (std::vector<double>{90, 90}));
}

// A step that takes as long as its transfer anyway is not made smaller; one whose experts are there may be.
TEST_F(EvenLastSteps, LessThanAStepARankIsSharedOutDownToTheFloor) {
  const std::vector<int32_t> prefix = text(1, 16);
  const auto rank_loads = [&](double floor) {
    SchedulerConfig config = ranks_of(4);
    config.load.floor = floor;
    make(config);
    for (uint64_t id = 1; id <= 8; ++id) t_->submit(id, joined(prefix, text(static_cast<int32_t>(id + 1), 10)));
    return loads(next_steps());
  };
  // 96 tokens are left, 24 a rank. The first has 26; the second saves 16, more than half of that, so it stays; the
  // third would save less than half of 36. The eighth finds all ranks with their shares, but none with a step.
  EXPECT_EQ(rank_loads(20), (std::vector<double>{36, 36, 36, 36}));
  EXPECT_EQ(rank_loads(60), (std::vector<double>{66, 46}));
  EXPECT_EQ(rank_loads(100), (std::vector<double>{96}));
}

// Both have run steps of 100 in 1,000 ns. When they are planned for, rank 0 is done with its second one but for the
// report, and rank 1 has half of it before it: it gets 50 less.
TEST_F(EvenLastSteps, CountWhatRanksHaveYetToDo) {
  make(ranks_of(2));
  submit(65);
  const std::vector<StepPlan> first = next_steps();
  const std::vector<StepPlan> second = next_steps();
  ASSERT_EQ(loads(second), (std::vector<double>{100, 100}));
  t_->clock.now = 1000;
  t_->finish(first[0].id);
  t_->clock.now = 1500;
  t_->finish(first[1].id);
  t_->clock.now = 2000;
  // Rank 1's first step took 1,500: it does a fifteenth of its load a ns, and has 100 - 500 / 15 before it.
  const std::vector<StepPlan> steps = next_steps();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_NEAR(steps[0].target, (250 + 100 - 500.0 / 15) / 2, 1e-9);
  EXPECT_EQ(steps[0].load, 150);
  EXPECT_EQ(steps[1].load, 100) << "ten more than its 91.7, by the last request";
}

// 300 are left for two ranks that have 100 before them each: steps of 150 would be even, but is it the end?
TEST_F(EvenLastSteps, AreNotWhileRequestsGoOnArriving) {
  for (const bool arriving : {false, true}) {
    make(ranks_of(2));
    submit(arriving ? 20 : 49);
    ASSERT_EQ(loads(next_steps()), (std::vector<double>{100, 100}));
    if (arriving) submit(29);
    const std::vector<double> even = {150, 140};
    const std::vector<double> full = {100, 100};
    EXPECT_EQ(loads(next_steps()), arriving ? full : even) << arriving;
  }
}

TEST_F(EvenLastSteps, ABrokenRankGetsNoShare) {
  make(ranks_of(3));
  (void)t_->scheduler.retire_rank(1);
  submit(30);
  EXPECT_EQ(loads(next_steps()), (std::vector<double>{150, 150}));
}

// Rank 0 runs a step of `running` tokens, 160 of them a prefix that the request which then comes has.
std::vector<StepPlan> rest_after(int32_t running, std::optional<int64_t> deadline_ns = {}) {
  ManualClock clock;
  Router router(ranks_of(2, 4000), tiny_shape(), clock, "prefix-saturation");
  const std::vector<int32_t> prefix = text(1, 160);
  EXPECT_EQ(router.submit(request_of(1, joined(prefix, text(2, running - 160)))), SubmitResult::kAccepted);
  EXPECT_EQ(router.steps_for_idle().size(), 1U);
  ScheduleRequest request = request_of(2, joined(prefix, text(3, 20)));
  request.deadline_ns = deadline_ns;
  EXPECT_EQ(router.submit(std::move(request)), SubmitResult::kAccepted);
  EXPECT_TRUE(router.steps_for_idle().empty()) << "its prefix will be on rank 0";
  EXPECT_TRUE(router.steps_for_busy().empty()) << "20 tokens fill no step";
  std::vector<StepPlan> rest = router.steps_for_rest();
  router.check_invariants();
  return rest;
}

TEST(Rest, WaitsForItsPrefixNoLongerThanTwiceWhatItSaves) {
  EXPECT_TRUE(rest_after(320).empty());
  const std::vector<StepPlan> elsewhere = rest_after(321);
  ASSERT_EQ(elsewhere.size(), 1U);
  EXPECT_EQ(elsewhere[0].rank, 1);
  EXPECT_EQ(elsewhere[0].tokens, 180);
}

// Rank 0 did 320 in 1,000 ns, and should be done with 160 more at 1,500. From then on it is late: by 2,500 for as long
// as it takes to do 320, twice what the prefix saves.
TEST(Rest, DoesNotWaitForEverForARankThatIsLate) {
  ManualClock clock;
  Router router(ranks_of(2, 4000), tiny_shape(), clock, "prefix-saturation");
  const std::vector<int32_t> prefix = text(1, 160);
  const auto run = [&](uint64_t id) {
    EXPECT_EQ(router.submit(request_of(id, joined(prefix, text(static_cast<int32_t>(id) + 1, 160)))),
              SubmitResult::kAccepted);
    const std::vector<StepPlan> steps = router.steps_for_idle();
    EXPECT_EQ(steps.size(), 1U);
    return steps.at(0).id;
  };
  const uint64_t first = run(1);
  clock.now = 1000;
  router.finish_step(first, StepOutcome::kDone);
  (void)run(2);
  ASSERT_EQ(router.submit(request_of(3, joined(prefix, text(9, 20)))), SubmitResult::kAccepted);
  for (const int64_t now : {1000, 1500, 2499}) {
    clock.now = now;
    EXPECT_TRUE(router.steps_for_idle().empty() && router.steps_for_busy().empty());
    EXPECT_TRUE(router.steps_for_rest().empty()) << now;
    EXPECT_TRUE(router.rest_waits());
  }
  clock.now = 2501;
  EXPECT_EQ(router.steps_for_rest().size(), 1U);
  EXPECT_FALSE(router.rest_waits());
}

TEST(Rest, GoesToAnIdleRankWhenItsDeadlinePresses) { EXPECT_EQ(rest_after(320, 5).size(), 1U); }

}  // namespace
}  // namespace zp
