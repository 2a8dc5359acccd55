// Limits, order and fairness of steps.
#include "zp/schedule/scheduler.h"

#include <gtest/gtest.h>

#include "tests/schedule/scheduler_under_test.h"

namespace zp {
namespace {

SchedulerConfig config_of(int64_t target, int64_t step_tokens_max) {
  return {.pool_blocks = {64},
          .load = token_load(target),
          .step_tokens_max = step_tokens_max,
          .max_request_tokens = 1000,
          .deadline_slack_ns = 100};
}

TEST(Scheduler, RefusesWhatItCannotRunAndSaysWhy) {
  SchedulerConfig config = config_of(100, 200);
  config.queue_max = 2;
  SchedulerUnderTest t(config);
  EXPECT_EQ(t.scheduler.submit(request_of(1, {})), SubmitResult::kEmpty);
  EXPECT_EQ(t.scheduler.submit(request_of(1, text(1, 1001))), SubmitResult::kTooLong);
  EXPECT_EQ(t.scheduler.submit(request_of(1, text(1, 1000))), SubmitResult::kAccepted);
  EXPECT_EQ(t.scheduler.submit(request_of(1, text(1, 5))), SubmitResult::kDuplicateId);
  EXPECT_EQ(t.scheduler.submit(request_of(2, text(1, 5))), SubmitResult::kAccepted);
  EXPECT_EQ(t.scheduler.submit(request_of(3, text(1, 5))), SubmitResult::kQueueFull);
  const auto step = t.next();
  EXPECT_EQ(t.scheduler.submit(request_of(1, text(1, 5))), SubmitResult::kDuplicateId);  // it is in a step
  t.finish(step->id);
  EXPECT_EQ(t.scheduler.submit(request_of(1, text(1, 5))), SubmitResult::kAccepted);
}

TEST(Scheduler, FillsAStepUpToItsTarget) {
  SchedulerUnderTest t(config_of(100, 1000));
  for (uint64_t id = 0; id < 5; ++id) t.submit(id, text(static_cast<int32_t>(id), 40));
  const auto first = t.next();
  EXPECT_EQ(ids(first), list({0, 1, 2}));
  EXPECT_EQ(first->tokens, 120);
  EXPECT_EQ(first->load, 120);
  EXPECT_EQ(first->filled_by, StopReason::kTarget);
  const auto second = t.next();
  EXPECT_EQ(ids(second), list({3, 4}));
  EXPECT_EQ(second->filled_by, StopReason::kQueueEnded);
  EXPECT_FALSE(t.next().has_value());
}

TEST(Scheduler, RowsAreTheSegmentsTokensInOrder) {
  SchedulerUnderTest t(config_of(100, 1000));
  t.submit(1, text(1, 37));
  t.submit(2, text(2, 20));
  const auto step = t.next();
  ASSERT_EQ(step->segments.size(), 2U);
  EXPECT_EQ(step->segments[0].row, 0);
  EXPECT_EQ(step->segments[1].row, 37);
  EXPECT_EQ(step->segments[1].end, 20);
  EXPECT_EQ(step->tokens, 57);
  EXPECT_EQ(step->cost.tokens, 57);
  EXPECT_GT(step->cost.attention, 0);
}

TEST(Scheduler, AStepNeverExceedsItsMaximumAndLaterRequestsMayFillIt) {
  SchedulerUnderTest t(config_of(100, 100));
  t.submit(1, text(1, 60));
  t.submit(2, text(2, 50));  // would make 110
  t.submit(3, text(3, 30));
  const auto step = t.next();
  EXPECT_EQ(ids(step), list({1, 3}));
  EXPECT_EQ(step->filled_by, StopReason::kCapacity);
  EXPECT_EQ(ids(t.next()), list({2}));
}

TEST(Scheduler, ARequestAboveTheMaximumIsItsOwnStep) {
  SchedulerUnderTest t(config_of(100, 200));
  t.submit(1, text(1, 20));
  t.submit(2, text(2, 900));
  t.submit(3, text(3, 20));
  EXPECT_EQ(ids(t.next()), list({1, 3}));
  const auto step = t.next();
  EXPECT_EQ(ids(step), list({2}));
  EXPECT_EQ(step->tokens, 900);
}

TEST(Scheduler, LooksNoFurtherAheadThanToldTo) {
  SchedulerConfig config = config_of(100, 1000);
  config.look_ahead = 2;
  SchedulerUnderTest t(config);
  for (uint64_t id = 0; id < 4; ++id) t.submit(id, text(static_cast<int32_t>(id), 10));
  const auto step = t.next();
  EXPECT_EQ(ids(step), list({0, 1}));
  EXPECT_EQ(step->filled_by, StopReason::kLookAhead);
}

TEST(Scheduler, KnowsTheBlocksOfTheRequestsThatItLooksAtOnly) {
  SchedulerConfig config = config_of(100, 1000);
  config.pool_blocks = {64, 64};
  config.look_ahead = 1;
  SchedulerUnderTest t(config);
  t.submit(1, text(1, 5 * kBlockTokens));
  EXPECT_FALSE(t.next(1).has_value());  // it would go to rank 0, which was not asked
  EXPECT_EQ(t.scheduler.index().tree().size(), 6);
  ScheduleRequest urgent = request_of(2, text(2, kBlockTokens));
  urgent.priority = 1;
  t.submit(std::move(urgent));
  EXPECT_FALSE(t.next(1).has_value());
  EXPECT_EQ(t.scheduler.index().tree().size(), 2);
}

// So that the next plan need not find the blocks of all that came since the last one.
TEST(Scheduler, FindsBlocksWhenRequestsArriveUnlessThePlanWillNotLookAtThem) {
  SchedulerConfig config = config_of(100, 1000);
  config.look_ahead = 2;
  SchedulerUnderTest t(config);
  for (uint64_t id = 1; id <= 2; ++id) {
    t.submit(id, text(static_cast<int32_t>(id), 3 * kBlockTokens));
    EXPECT_EQ(t.scheduler.index().tree().size(), static_cast<int32_t>(1 + 3 * id));
  }
  t.submit(3, text(3, 3 * kBlockTokens));
  EXPECT_EQ(t.scheduler.index().tree().size(), 7);
  EXPECT_EQ(t.scheduler.cancel(1), CancelResult::kRemoved);
  EXPECT_EQ(t.scheduler.index().tree().size(), 4);
  t.scheduler.check_invariants();
}

TEST(Scheduler, GivesARankOneRunningAndOneStagedStep) {
  SchedulerUnderTest t(config_of(10, 1000));
  for (uint64_t id = 0; id < 4; ++id) t.submit(id, text(static_cast<int32_t>(id), 20));
  const auto running = t.next();
  const auto staged = t.next();
  EXPECT_FALSE(t.next().has_value());
  EXPECT_EQ(t.scheduler.stats().load, (std::vector<double>{40}));
  t.finish(running->id);
  EXPECT_EQ(ids(t.next()), list({2}));
  EXPECT_DEATH(static_cast<void>(t.scheduler.finish_step(staged->id + 1, StepOutcome::kDone)), "ends before");
}

TEST(Scheduler, ABusyRankCanWaitForAFullStep) {
  SchedulerUnderTest t(config_of(100, 1000));
  t.submit(1, text(1, 20));
  EXPECT_EQ(ids(t.next(0, StepFill::kFullOnly)), list({1}));  // an idle rank takes what there is
  t.submit(2, text(2, 60));
  EXPECT_FALSE(t.next(0, StepFill::kFullOnly).has_value());
  t.submit(3, text(3, 60));
  EXPECT_EQ(ids(t.next(0, StepFill::kFullOnly)), list({2, 3}));
}

TEST(Scheduler, HigherPrioritiesRunFirst) {
  SchedulerUnderTest t(config_of(10, 1000));
  for (uint64_t id = 0; id < 3; ++id) {
    ScheduleRequest request = request_of(id, text(static_cast<int32_t>(id), 20));
    request.priority = static_cast<int32_t>(id);
    t.submit(std::move(request));
  }
  EXPECT_EQ(ids(t.run()), list({2}));
  EXPECT_EQ(ids(t.run()), list({1}));
  EXPECT_EQ(ids(t.run()), list({0}));
}

TEST(Scheduler, APressingDeadlineGoesFirstAndTakesNothingElseAlong) {
  SchedulerUnderTest t(config_of(100, 1000));
  t.submit(1, text(1, 20));
  for (const uint64_t id : {2, 3}) {
    ScheduleRequest request = request_of(id, text(static_cast<int32_t>(id), 20));
    request.deadline_ns = 500;
    t.submit(std::move(request));
  }
  t.clock.now = 400;
  const auto step = t.next();
  EXPECT_EQ(ids(step), list({2, 3}));
  EXPECT_EQ(step->filled_by, StopReason::kDeadline);
  EXPECT_EQ(ids(t.next()), list({1}));
}

TEST(Scheduler, ADeadlineFarAwayChangesNothing) {
  SchedulerUnderTest t(config_of(100, 1000));
  t.submit(1, text(1, 20));
  ScheduleRequest request = request_of(2, text(2, 20));
  request.deadline_ns = 500;
  t.submit(std::move(request));
  t.clock.now = 399;
  const auto step = t.next();
  EXPECT_EQ(ids(step), list({1, 2}));
  EXPECT_EQ(step->filled_by, StopReason::kQueueEnded);
}

TEST(Scheduler, NobodyIsPassedForEver) {
  SchedulerConfig config = config_of(10, 1000);
  config.bypass_max = 5;
  SchedulerUnderTest t(config);
  t.submit(1, text(1, 20));
  uint64_t passed = 0;
  for (uint64_t id = 2; id < 50; ++id) {
    ScheduleRequest request = request_of(id, text(static_cast<int32_t>(id), 20));
    request.priority = 1;
    t.submit(std::move(request));
    const auto step = t.run();
    if (ids(step) == list({1})) break;
    ++passed;
  }
  EXPECT_EQ(passed, 5U);
}

TEST(Scheduler, CancelledRequestsLeaveBeforeTheyCostAnything) {
  SchedulerUnderTest t(config_of(100, 1000));
  t.submit(1, text(1, 40));
  t.submit(2, text(2, 40));
  EXPECT_EQ(t.scheduler.cancel(1), CancelResult::kRemoved);
  EXPECT_EQ(t.scheduler.cancel(1), CancelResult::kUnknown);
  const auto step = t.next();
  EXPECT_EQ(ids(step), list({2}));
  EXPECT_EQ(t.scheduler.cancel(2), CancelResult::kInStep);
  t.finish(step->id);
  const SchedulerStats stats = t.scheduler.stats();
  EXPECT_EQ(stats.requests_cancelled, 2);
  EXPECT_EQ(stats.requests_done, 0);
  EXPECT_EQ(stats.computed_tokens, 40);
}

TEST(Scheduler, ANewTargetAppliesToTheNextStep) {
  SchedulerUnderTest t(config_of(100, 1000));
  for (uint64_t id = 0; id < 8; ++id) t.submit(id, text(static_cast<int32_t>(id), 40));
  EXPECT_EQ(t.next()->segments.size(), 3U);
  t.scheduler.set_load(token_load(150));
  EXPECT_EQ(t.next()->segments.size(), 4U);
}

TEST(Scheduler, CountsWhatItDid) {
  SchedulerUnderTest t(config_of(100, 1000));
  t.submit(1, text(1, 64));
  t.submit(2, joined(text(1, 64), text(2, 6)));
  t.submit(3, text(3, 10));
  const auto step = t.next();
  EXPECT_EQ(ids(step), list({1, 2, 3}));
  SchedulerStats stats = t.scheduler.stats();
  EXPECT_EQ(stats.queued, 0);
  EXPECT_EQ(stats.in_steps, 3);
  EXPECT_EQ(stats.steps, 1);
  EXPECT_EQ(stats.hit_tokens, 64);
  EXPECT_EQ(stats.computed_tokens, 80);
  EXPECT_EQ(stats.load, (std::vector<double>{80}));
  t.finish(step->id);
  stats = t.scheduler.stats();
  EXPECT_EQ(stats.in_steps, 0);
  EXPECT_EQ(stats.requests_done, 3);
  EXPECT_EQ(stats.load, (std::vector<double>{0}));
}

}  // namespace
}  // namespace zp
