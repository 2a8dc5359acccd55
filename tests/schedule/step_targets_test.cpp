// The end of the queue: even last steps, and what is done with a rest whose prefix lies on a busy rank.
#include "zp/schedule/step_targets.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// Three questions on one document that is longer than a step: what two of them are besides takes no time of its own,
// and would take a transfer as a step of its own.
TEST_F(EvenLastSteps, ARestThatThisPlanComputesMostOfGoesAlong) {
  SchedulerConfig config = ranks_of(2, 10'000);
  config.load = token_load(1000);
  config.load.floor = 900;
  make(config);
  const std::vector<int32_t> document = text(1, 70 * kBlockTokens);
  for (uint64_t id = 1; id <= 3; ++id) t_->submit(id, joined(document, text(static_cast<int32_t>(9 + id), 5)));
  const std::vector<StepPlan> steps = next_steps();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].segments.size(), 3U);
  EXPECT_EQ(steps[0].load, 70 * kBlockTokens + 3 * 5);
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

// 768 tokens are left for two ranks, of targets of 320: more than a step for each, less than two.
class BlocksLeft : public EvenLastSteps {
 protected:
  void make_ranks() {
    SchedulerConfig config = ranks_of(2, 4000);
    config.load = token_load(320);
    make(config);
  }
  void expect_even() {
    for (const StepPlan& step : next_steps()) {
      EXPECT_EQ(step.target, 384);
      EXPECT_EQ(step.load, 384);
    }
  }
};

TEST_F(BlocksLeft, AreNotThoseThatARankHas) {
  make_ranks();
  t_->submit(1, text(1, 60 * kBlockTokens));
  EXPECT_TRUE(t_->run().has_value());
  for (uint64_t id = 2; id < 26; ++id) t_->submit(id, text(static_cast<int32_t>(id), 2 * kBlockTokens));
  expect_even();
}

TEST_F(BlocksLeft, AreCountedOnceForTwoRequests) {
  make_ranks();
  for (int32_t pair = 0; pair < 8; ++pair) {
    const std::vector<int32_t> shared = text(pair, 2 * kBlockTokens);
    for (const int32_t own : {100, 200}) t_->submit(last_++, joined(shared, text(own + pair, 2 * kBlockTokens)));
  }
  expect_even();
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
  // Four make 56 of 60 and leave no room for a fifth, whose 16 saved are not worth making this step longer.
  EXPECT_EQ(rank_loads(60), (std::vector<double>{56, 56}));
  EXPECT_EQ(rank_loads(100), (std::vector<double>{96}));
}

// Both have run steps of 100 in 1,000 ns. When they are planned for, rank 0 is done with its second one but for the
// report, and rank 1 has half of it before it: it gets 50 less.
TEST_F(EvenLastSteps, CountWhatRanksHaveYetToDo) {
  SchedulerConfig config = ranks_of(2);
  config.load.floor = 50;
  make(config);
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
  // The last request ends at 160 here, and at 66.7 + 100 there.
  EXPECT_EQ(steps[0].load, 160);
  EXPECT_EQ(steps[1].load, 90);
}

// 550 for two ranks: 275 each.
TEST_F(EvenLastSteps, BeginWithWhatIsLongBesideWhatIsLeft) {
  make(ranks_of(2));
  submit(30);
  t_->submit(99, text(99, 250));
  const std::vector<StepPlan> steps = next_steps();
  ASSERT_EQ(loads(steps), (std::vector<double>{280, 270}));
  EXPECT_EQ(steps[0].segments[0].request, 99U);
}

// An eighth of what is left for a rank is long: 26 of 213 is not, 27 of 213.5 is.
TEST_F(EvenLastSteps, TakeWhatIsNotLongInOrder) {
  for (const int32_t tokens : {26, 27}) {
    make(ranks_of(2));
    submit(40);
    t_->submit(99, text(99, tokens));
    EXPECT_EQ(next_steps().at(0).segments.at(0).request == 99, tokens * 8 * 2 >= 400 + tokens) << tokens;
  }
}

// On one rank the order changes nothing but who waits.
TEST_F(EvenLastSteps, TakeWhatIsLongInOrderWhereThereIsOneRank) {
  make(ranks_of(1));
  submit(35);
  t_->submit(99, text(99, 300));
  EXPECT_EQ(next_steps().at(0).segments.at(0).request, 1U);
}

// Rank 0 has 310 to do, more than an even share of 610: all else is for rank 1.
TEST_F(EvenLastSteps, GiveNothingToARankThatHasItsShare) {
  make(ranks_of(2));
  submit(30);
  t_->submit(99, text(99, 310));
  ASSERT_EQ(loads(next_steps()), (std::vector<double>{310, 100}));
  const std::vector<StepPlan> steps = next_steps();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].rank, 1);
  EXPECT_EQ(steps[0].load, 100);
}

// Alone the 30 would take a transfer, the time of 100.
TEST_F(EvenLastSteps, TakeARestAlongThatIsWorthNoStep) {
  const auto with_rest = [&](int32_t rest, int64_t step_tokens_max) {
    make(ranks_of(1, step_tokens_max));
    t_->submit(99, text(99, 350));
    submit(rest);
    return loads(next_steps());
  };
  EXPECT_EQ(with_rest(3, 400), (std::vector<double>{380}));
  EXPECT_EQ(with_rest(3, 370), (std::vector<double>{370}));
  EXPECT_EQ(with_rest(9, 500), (std::vector<double>{440}));
  EXPECT_EQ(with_rest(10, 500), (std::vector<double>{350})) << "a step of its own";
}

// 48 + 15 x 10 are counted, so a share is 100. The prefix is computed twice, and shares are used up by 12 requests.
TEST_F(EvenLastSteps, TakeARestAlongThatCopiesOfPrefixesLeave) {
  make(ranks_of(2));
  const std::vector<int32_t> prefix = text(1, 48);
  for (uint64_t id = 1; id <= 15; ++id) t_->submit(id, joined(prefix, text(static_cast<int32_t>(id + 1), 10)));
  const std::vector<StepPlan> steps = next_steps();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].segments.size() + steps[1].segments.size(), 15U);
  EXPECT_EQ(steps[0].load + steps[1].load, 2 * 48 + 15 * 10);
}

TEST_F(EvenLastSteps, LeaveARestToARankThatHasAShareOfIt) {
  SchedulerConfig config = ranks_of(2, 4000);
  config.load = token_load(150);
  make(config);
  t_->submit(1, text(1, 210));
  t_->submit(2, text(2, 160));
  t_->submit(3, text(3, 160));
  t_->submit(4, text(4, 20));
  for (uint64_t id = 5; id <= 20; ++id) t_->submit(id, text(static_cast<int32_t>(id), 60));
  ASSERT_EQ(loads(next_steps()), (std::vector<double>{210, 160}));
  ASSERT_EQ(ids(t_->next(1)), list({3}));
  for (uint64_t id = 12; id <= 20; ++id) ASSERT_EQ(t_->scheduler.cancel(id), CancelResult::kRemoved);
  // 970 are 485 each. Rank 0 lacks 275, and the 140 that are left then are for rank 1, which has 320.
  EXPECT_EQ(t_->next(0)->load, 300);
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

// Rank 0 has 210 to do where steps are 100, and is given nothing more though a full step waits: what comes next may
// start sooner on rank 1. Once it has done all but 200 it is.
TEST_F(EvenLastSteps, NothingIsStagedBehindALongRequestWhileRequestsArrive) {
  make(ranks_of(2, 4000));
  t_->submit(1, text(1, 210));
  t_->submit(2, text(2, 100));
  ASSERT_EQ(loads(next_steps()), (std::vector<double>{210, 100}));
  for (uint64_t id = 3; id <= 30; ++id) t_->submit(id, text(static_cast<int32_t>(id), 50));
  EXPECT_FALSE(t_->next(0).has_value());
  EXPECT_EQ(t_->next(1)->load, 100);
  for (uint64_t id = 31; id <= 40; ++id) t_->submit(id, text(static_cast<int32_t>(id), 50));
  EXPECT_FALSE(t_->next(0).has_value());
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

// A prefix of 64 blocks lies on rank 0, which has a request of 5,000 to do: who comes with it now goes to rank 1,
// unless what it saves is half of that.
TEST(Rest, NobodyWaitsForAPrefixBehindALongRequestWhileRequestsArrive) {
  for (const bool large : {false, true}) {
    ManualClock clock;
    SchedulerConfig config{.pool_blocks = {512, 512}, .load = token_load(1000), .step_tokens_max = 16'000};
    Router router(config, tiny_shape(), clock, "prefix-saturation");
    const std::vector<int32_t> prefix = text(1, large ? 4800 : 1024);
    EXPECT_EQ(router.submit(request_of(1, joined(prefix, text(2, 4500)))), SubmitResult::kAccepted);
    EXPECT_EQ(router.steps_for_idle().size(), 1U);
    for (uint64_t id = 2; id < 5; ++id)
      EXPECT_EQ(router.submit(request_of(id, text(static_cast<int32_t>(id) + 1, 900))), SubmitResult::kAccepted);
    EXPECT_EQ(router.submit(request_of(5, joined(prefix, text(9, 10)))), SubmitResult::kAccepted);
    const std::vector<StepPlan> steps = router.steps_for_idle();
    ASSERT_EQ(steps.size(), 1U);
    const auto is_it = [](const Segment& segment) { return segment.request == 5; };
    EXPECT_EQ(std::ranges::any_of(steps[0].segments, is_it), !large);
  }
}

TEST(Rest, WaitsForItsPrefixHardlyLongerThanThatSaves) {
  EXPECT_TRUE(rest_after(200).empty());
  const std::vector<StepPlan> elsewhere = rest_after(201);
  ASSERT_EQ(elsewhere.size(), 1U);
  EXPECT_EQ(elsewhere[0].rank, 1);
  EXPECT_EQ(elsewhere[0].tokens, 180);
}

// Rank 0 did 320 in 1,000 ns, and should be done with 160 more at 1,500. From then on it is late: by 2,125 for as long
// as it takes to do 200, five quarters of what the prefix saves.
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
  for (const int64_t now : {1000, 1500, 2124}) {
    clock.now = now;
    EXPECT_TRUE(router.steps_for_idle().empty() && router.steps_for_busy().empty());
    EXPECT_TRUE(router.steps_for_rest().empty()) << now;
    EXPECT_TRUE(router.rest_waits());
  }
  clock.now = 2126;
  EXPECT_EQ(router.steps_for_rest().size(), 1U);
  EXPECT_FALSE(router.rest_waits());
}

// Rank 0 did 100 in 1,000 ns, then began 1,610, of which 1,600 are a prefix that all others have. Who asks for a step
// of rank 1 at `now`, while so many wait that have ten tokens besides?
std::vector<StepPlan> copy_at(int64_t now, int32_t questions) {
  ManualClock clock;
  Router router(ranks_of(2, 4000), tiny_shape(), clock, "prefix-saturation");
  const std::vector<int32_t> prefix = text(1, 1600);
  EXPECT_EQ(router.submit(request_of(1, text(2, 100))), SubmitResult::kAccepted);
  const std::vector<StepPlan> first = router.steps_for_idle();
  EXPECT_EQ(first.size(), 1U);
  clock.now = 1000;
  router.finish_step(first.at(0).id, StepOutcome::kDone);
  EXPECT_EQ(router.submit(request_of(2, joined(prefix, text(3, 10)))), SubmitResult::kAccepted);
  EXPECT_EQ(router.steps_for_idle().size(), 1U);
  clock.now = now;
  for (int32_t i = 0; i < questions; ++i)
    EXPECT_EQ(router.submit(request_of(static_cast<uint64_t>(10 + i), joined(prefix, text(10 + i, 10)))),
              SubmitResult::kAccepted);
  std::vector<StepPlan> copy = router.steps_for_idle();
  router.check_invariants();
  return copy;
}

// At 2,500 ns rank 0 has 1,460 to do, then 100 of what waits; before the last of 15 it does 40 besides: 1,600, as much
// as the prefix saves.
TEST(Rest, WaitsForAPrefixThatComesSoonerThanItsCopy) {
  EXPECT_TRUE(copy_at(2501, 15).empty());
  EXPECT_EQ(copy_at(2499, 15).size(), 1U);
}

// Rank 0 has done all but 9 of its 1,610. Before the last of 160 it does 100 and 1,490 of those that wait, before the
// last of 161 it does 1,609 altogether: more than a copy takes.
TEST(Rest, IsCopiedOnceMoreWaitsForItThanACopyTakes) {
  EXPECT_TRUE(copy_at(17'010, 160).empty());
  EXPECT_EQ(copy_at(17'010, 161).size(), 1U);
}

TEST(Rest, GoesToAnIdleRankWhenItsDeadlinePresses) { EXPECT_EQ(rest_after(200, 5).size(), 1U); }

}  // namespace
}  // namespace zp
