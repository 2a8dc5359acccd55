// Broken promises: failed steps, recalled steps, cancelled requests.
#include <gtest/gtest.h>

#include "tests/schedule/scheduler_under_test.h"

namespace zp {
namespace {

class Failure : public testing::Test {
 protected:
  // A target of one token: every request is a step.
  SchedulerUnderTest t_{{.pool_blocks = {64}, .load = token_load(1), .step_tokens_max = 1000}};
  const std::vector<int32_t> shared_ = text(0, 64);
};

TEST_F(Failure, AFailedStepsBlocksAreNeverReused) {
  t_.submit(1, shared_);
  const auto step = t_.next();
  EXPECT_TRUE(t_.finish(step->id, StepOutcome::kFailed).empty());
  EXPECT_EQ(t_.scheduler.index().room(0).free, 64);
  t_.submit(2, shared_);
  EXPECT_EQ(t_.next()->hit_tokens, 0);
  EXPECT_EQ(t_.scheduler.stats().requests_failed, 1);
}

TEST_F(Failure, AStepThatReliedOnAFailedOneIsRecalledAndReplanned) {
  t_.submit(1, shared_);
  t_.submit(2, joined(shared_, text(2, 20)));
  const auto running = t_.next();
  const auto staged = t_.next();
  ASSERT_EQ(staged->hit_tokens, 64);
  EXPECT_EQ(t_.finish(running->id, StepOutcome::kFailed), list({staged->id}));
  EXPECT_EQ(t_.scheduler.stats().queued, 1);
  const auto replanned = t_.next();
  EXPECT_EQ(ids(replanned), list({2}));
  EXPECT_EQ(replanned->tokens, 84);
  EXPECT_EQ(replanned->relies_on, std::nullopt);
  EXPECT_EQ(t_.scheduler.stats().computed_tokens, 64 + 84);
}

TEST_F(Failure, AStepThatDidNotRelyOnItGoesOn) {
  t_.submit(1, shared_);
  t_.submit(2, text(2, 84));
  const auto running = t_.next();
  const auto staged = t_.next();
  EXPECT_EQ(staged->relies_on, std::nullopt);
  EXPECT_TRUE(t_.finish(running->id, StepOutcome::kFailed).empty());
  t_.finish(staged->id);
  EXPECT_EQ(t_.scheduler.stats().requests_done, 1);
}

TEST(Retired, ARanksRequestsGoToTheOthersAndNothingGoesToIt) {
  SchedulerUnderTest t{{.pool_blocks = {64, 64}, .load = token_load(50), .step_tokens_max = 1000}};
  const std::vector<int32_t> shared = text(0, 64);
  t.submit(1, shared);
  t.submit(2, text(2, 84));
  const auto running = t.next(0);
  const auto other = t.next(1);
  t.submit(3, joined(shared, text(3, 20)));
  const auto staged = t.next(0);
  ASSERT_EQ(ids(staged), list({3}));
  t.scheduler.cancel(3);
  EXPECT_EQ(t.scheduler.retire_rank(0), list({staged->id, running->id}));
  t.scheduler.check_invariants();
  EXPECT_EQ(t.scheduler.stats().requests_cancelled, 1) << "a cancelled request leaves with its step";
  EXPECT_FALSE(t.next(0).has_value());
  t.finish(other->id);
  EXPECT_EQ(ids(t.run(1)), list({1}));
  t.submit(4, joined(shared, text(4, 20)));
  EXPECT_FALSE(t.next(0).has_value());
  EXPECT_EQ(t.next(1)->hit_tokens, 64);
}

TEST_F(Failure, CommittedBlocksSurviveTheFailureOfTheirReaders) {
  t_.submit(1, shared_);
  t_.run();
  t_.submit(2, joined(shared_, text(2, 20)));
  const auto reader = t_.next();
  t_.finish(reader->id, StepOutcome::kFailed);
  t_.submit(3, joined(shared_, text(3, 20)));
  EXPECT_EQ(t_.next()->hit_tokens, 64);
}

TEST_F(Failure, RecalledRequestsKeepTheirPlaces) {
  t_.submit(1, shared_);
  t_.submit(2, joined(shared_, text(2, 20)));
  t_.submit(3, text(3, 20));
  const auto running = t_.next();
  static_cast<void>(t_.next());
  t_.finish(running->id, StepOutcome::kFailed);
  EXPECT_EQ(ids(t_.next()), list({2}));
}

TEST_F(Failure, ACancelledRequestLeavesWithItsRecalledStep) {
  t_.scheduler.set_load(token_load(1000));
  t_.submit(1, shared_);
  t_.submit(2, joined(shared_, text(2, 20)));
  const auto step = t_.next();
  EXPECT_EQ(t_.scheduler.cancel(1), CancelResult::kInStep);
  t_.scheduler.recall_step(step->id);
  t_.scheduler.check_invariants();
  const auto replanned = t_.next();
  EXPECT_EQ(ids(replanned), list({2}));
  EXPECT_EQ(replanned->tokens, 84);  // nobody else computes the prefix now
  EXPECT_EQ(t_.scheduler.stats().requests_cancelled, 1);
}

TEST_F(Failure, RecallingTakesTheCountsBack) {
  t_.submit(1, shared_);
  t_.scheduler.recall_step(t_.next()->id);
  t_.scheduler.check_invariants();
  const SchedulerStats stats = t_.scheduler.stats();
  EXPECT_EQ(stats.queued, 1);
  EXPECT_EQ(stats.in_steps, 0);
  EXPECT_EQ(stats.steps, 0);
  EXPECT_EQ(stats.computed_tokens, 0);
}

TEST_F(Failure, OnlyTheLastStepOfARankCanBeRecalled) {
  t_.submit(1, text(1, 20));
  t_.submit(2, text(2, 20));
  const auto running = t_.next();
  static_cast<void>(t_.next());
  EXPECT_DEATH(t_.scheduler.recall_step(running->id), "is recalled before");
}

}  // namespace
}  // namespace zp
