// The scheduling thread with ranks that a test controls: outcomes come exactly once, whatever happens.
#include "zp/engine/dispatcher.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/engine/manual_rank.h"

namespace zp {
namespace {

using test::ManualRank;
using test::small_shape;

class DispatcherTest : public ::testing::Test {
 protected:
  // Two and a half requests of 4,000 tokens.
  static constexpr uint64_t kPendingBytesMax = 5 * request_bytes(4000, 3) / 2;

  DispatcherTest() {
    SchedulerConfig config;
    config.pool_blocks = {64};
    config.load = token_load(64);
    config.step_tokens_max = 128;
    config.even_last_steps = false;
    config.queue_max = 32;
    dispatcher_ = std::make_unique<Dispatcher>(
        config, small_shape(), clock_,
        [this](int32_t, StepRunner::Report report) {
          auto rank = std::make_unique<ManualRank>(std::move(report));
          rank_ = rank.get();
          return rank;
        },
        Dispatcher::Options{.pending_bytes_max = kPendingBytesMax});
  }

  uint64_t submit(int32_t last_token, int32_t length = 4) {
    CheckedRequest request;
    request.schedule.tokens.assign(static_cast<size_t>(length), last_token);
    request.schedule.chain = BlockChain("", request.schedule.tokens);
    request.candidates = {1, 2, 3};
    return dispatcher_->submit(std::move(request), [this](uint64_t id, Outcome outcome) {
      const std::lock_guard lock(mutex_);
      EXPECT_TRUE(outcomes_.emplace(id, std::move(outcome)).second) << "two outcomes for request " << id;
    });
  }
  std::map<uint64_t, Outcome> outcomes() {
    const std::lock_guard lock(mutex_);
    return outcomes_;
  }

  SteadyClock clock_;
  std::mutex mutex_;
  std::map<uint64_t, Outcome> outcomes_;  // guarded by mutex_; before the dispatcher, whose callbacks use it
  std::unique_ptr<Dispatcher> dispatcher_;
  ManualRank* rank_ = nullptr;
};

// Several ranks that fail when the test says so.
class RanksTest : public ::testing::Test {
 protected:
  void make(int32_t ranks, RankFailure rank_failure) {
    SchedulerConfig config;
    config.pool_blocks.assign(static_cast<size_t>(ranks), 64);
    config.load = token_load(64);
    config.step_tokens_max = 128;
    config.even_last_steps = false;
    config.queue_max = 64;
    dispatcher_ = std::make_unique<Dispatcher>(
        config, small_shape(), clock_,
        [this](int32_t, StepRunner::Report report) {
          auto rank = std::make_unique<ManualRank>(std::move(report));
          ranks_.push_back(rank.get());
          return rank;
        },
        Dispatcher::Options{.rank_failure = rank_failure});
  }
  // Requests of 64 tokens, so that each fills a step, with no common prefix.
  void submit(int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      CheckedRequest request;
      request.schedule.tokens.assign(64, ++last_token_);
      request.schedule.chain = BlockChain("", request.schedule.tokens);
      request.candidates = {1, 2, 3};
      (void)dispatcher_->submit(std::move(request), [this, token = last_token_](uint64_t, Outcome outcome) {
        const std::lock_guard lock(mutex_);
        EXPECT_TRUE(outcomes_.emplace(token, std::move(outcome)).second) << "two outcomes for request " << token;
      });
    }
  }
  int64_t failed() {
    const std::lock_guard lock(mutex_);
    return std::ranges::count_if(outcomes_, [](const auto& entry) { return entry.second.index() == 1; });
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return outcomes_.size();
  }
  void expect_right_answers() {
    const std::lock_guard lock(mutex_);
    for (const auto& [token, outcome] : outcomes_)
      if (const auto* answer = std::get_if<Answer>(&outcome)) {
        EXPECT_EQ(answer->logits[0], static_cast<float>(token));
      }
  }
  static std::exception_ptr cause() { return std::make_exception_ptr(Error(ErrorCode::kDevice, "the card fell off")); }

  SteadyClock clock_;
  std::mutex mutex_;
  std::map<int32_t, Outcome> outcomes_;  // by token; guarded by mutex_; before the dispatcher, whose callbacks use it
  int32_t last_token_ = 0;
  std::vector<ManualRank*> ranks_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

TEST_F(RanksTest, WhatAFailedRankHadRunsOnTheOthers) {
  make(3, RankFailure::kOthersGoOn);
  submit(12);
  ranks_[1]->run_one(cause());
  while (count() < 12) {
    ranks_[0]->run_if_started();
    ranks_[2]->run_if_started();
    ranks_[1]->fail_if_started(cause());  // its staged step, taken back meanwhile
  }
  dispatcher_->drain();
  EXPECT_EQ(failed(), 0);
  expect_right_answers();
  const EngineStats stats = dispatcher_->stats();
  EXPECT_EQ(stats.answered, 12);
  EXPECT_EQ(stats.ranks[1].steps, 0);
  EXPECT_NE(stats.ranks[1].failure.find("rank 1"), std::string::npos);
  EXPECT_NE(stats.ranks[1].failure.find("the card fell off"), std::string::npos);
  EXPECT_TRUE(stats.ranks[0].failure.empty());
  EXPECT_EQ(stats.ranks[0].steps + stats.ranks[2].steps, stats.steps);
  submit(4);
  while (count() < 16) {
    ranks_[0]->run_if_started();
    ranks_[2]->run_if_started();
  }
  EXPECT_EQ(failed(), 0) << "and later requests find the others";
}

TEST_F(RanksTest, ARequestIsGivenToNoMoreThanTwoFailingRanks) {
  make(3, RankFailure::kOthersGoOn);
  submit(1);
  for (int32_t tries = 0; tries < 2; ++tries) {
    bool ran = false;
    while (!ran)
      for (ManualRank* rank : ranks_) ran = ran || rank->fail_if_started(cause());
  }
  dispatcher_->drain();
  EXPECT_EQ(failed(), 1);
  submit(3);
  while (count() < 4)
    for (ManualRank* rank : ranks_) rank->run_if_started();
  EXPECT_EQ(failed(), 1) << "the third rank goes on";
}

TEST_F(RanksTest, TheLastRanksFailureFailsEverything) {
  make(2, RankFailure::kOthersGoOn);
  submit(8);
  ranks_[0]->run_one(cause());
  ranks_[1]->run_one();
  ranks_[1]->run_one(cause());
  dispatcher_->drain();
  EXPECT_EQ(count(), 8U);
  EXPECT_EQ(failed(), 7);
  expect_right_answers();
  submit(1);
  dispatcher_->drain();
  EXPECT_EQ(failed(), 8);
}

TEST_F(RanksTest, WhereRanksDependOnOneAnotherOneFailureEndsAllAndKeepsTheAnswers) {
  make(3, RankFailure::kEndsAll);
  submit(12);
  ranks_[0]->run_one();
  ranks_[2]->run_one();
  ranks_[1]->run_one(cause());
  dispatcher_->drain();
  EXPECT_EQ(count(), 12U);
  EXPECT_EQ(failed(), 10);
  expect_right_answers();
  for (const auto& [token, outcome] : outcomes_)
    if (const auto* failure = std::get_if<Failure>(&outcome)) {
      EXPECT_NE(failure->message.find("rank 1 failed: the card fell off"), std::string::npos);
    }
}

TEST_F(RanksTest, ExposedTimeIsAddedUpByRankAndLayer) {
  make(2, RankFailure::kOthersGoOn);
  submit(2);
  ranks_[0]->waits = {{.layer = 0, .exposed_ns = 3'000'000, .peer_wait_ns = 1'000'000}};
  // Both before either runs: a rank that is done could get the other request too.
  while (std::ranges::any_of(ranks_, [](const ManualRank* rank) { return rank->started() == 0; }))
    std::this_thread::yield();
  for (ManualRank* rank : ranks_) rank->run_one();
  dispatcher_->drain();
  const EngineStats stats = dispatcher_->stats();
  EXPECT_DOUBLE_EQ(stats.exposed_seconds, 0.003);
  EXPECT_DOUBLE_EQ(stats.peer_wait_seconds, 0.001);
  EXPECT_DOUBLE_EQ(stats.ranks[0].exposed_seconds, 0.003);
  EXPECT_DOUBLE_EQ(stats.ranks[0].exposed_seconds_by_layer.at(0), 0.003);
  EXPECT_DOUBLE_EQ(stats.ranks[1].exposed_seconds, 0);
  EXPECT_DOUBLE_EQ(stats.ranks[0].fill, 1.0) << "64 tokens of a target of 64";
  EXPECT_EQ(stats.ranks[1].computed_tokens, 64);
}

TEST_F(DispatcherTest, EachRequestGetsItsOwnLogits) {
  const uint64_t a = submit(10);
  const uint64_t b = submit(20);
  for (size_t tokens = 0; tokens < 8;) tokens += rank_->run_one();
  dispatcher_->drain();
  const auto all = outcomes();
  const auto& first = std::get<Answer>(all.at(a));
  EXPECT_EQ(first.logits, (std::vector<float>{10, 11, 12}));
  EXPECT_EQ(first.best, 2U);
  EXPECT_EQ(first.prompt_tokens, 4);
  EXPECT_EQ(std::get<Answer>(all.at(b)).logits, (std::vector<float>{20, 21, 22}));
  EXPECT_EQ(dispatcher_->stats().answered, 2);
  EXPECT_EQ(dispatcher_->stats().prompt_tokens, 8);
}

TEST_F(DispatcherTest, AFailedDeviceFailsEveryRequestWithItsCause) {
  (void)submit(10);
  (void)submit(20, 100);
  // Made beforehand: copies of an Error share its text, in a way that ThreadSanitizer does not see.
  const std::exception_ptr cause = std::make_exception_ptr(Error(ErrorCode::kDevice, "the card fell off"));
  rank_->run_one(cause);
  dispatcher_->drain();
  (void)submit(30);
  dispatcher_->drain();
  const auto all = outcomes();
  ASSERT_EQ(all.size(), 3U);
  for (const auto& [id, outcome] : all) {
    EXPECT_EQ(std::get<Failure>(outcome).code, ErrorCode::kDevice) << id;
    EXPECT_NE(std::get<Failure>(outcome).message.find("the card fell off"), std::string::npos) << id;
  }
  EXPECT_EQ(dispatcher_->stats().failed, 3);
}

TEST_F(DispatcherTest, ACancelledRequestHasOneOutcomeAndItsNeighboursAnswers) {
  const uint64_t running = submit(10);
  const uint64_t kept = submit(20);
  const uint64_t waiting = submit(30, 100);
  dispatcher_->cancel(running);
  dispatcher_->cancel(waiting);
  dispatcher_->cancel(waiting);  // twice is once
  dispatcher_->cancel(12345);    // unknown is nothing
  while (!outcomes().contains(running) || !outcomes().contains(waiting)) std::this_thread::yield();
  while (!outcomes().contains(kept)) rank_->run_if_started();
  dispatcher_->drain();
  const auto all = outcomes();
  EXPECT_EQ(std::get<Failure>(all.at(running)).code, ErrorCode::kCancelled);
  EXPECT_EQ(std::get<Failure>(all.at(waiting)).code, ErrorCode::kCancelled);
  EXPECT_EQ(std::get<Answer>(all.at(kept)).logits[0], 20);
}

TEST_F(DispatcherTest, ACallbackMayCancelMoreThanTheQueueHolds) {
  std::atomic<bool> called{false};
  CheckedRequest request;
  request.schedule.tokens = {1};
  request.schedule.chain = BlockChain("", request.schedule.tokens);
  request.candidates = {1};
  (void)dispatcher_->submit(std::move(request), [&](uint64_t, const Outcome&) {
    for (uint64_t id = 0; id < 10000; ++id) dispatcher_->cancel(id + 100);
    called = true;
  });
  rank_->run_one();
  dispatcher_->drain();
  EXPECT_TRUE(called);
}

// Each request is cancelled right after it was submitted, by many threads: none may be overlooked and wait for ever.
TEST_F(DispatcherTest, ACancellationIsNeverLost) {
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([this] {
      for (int i = 0; i < 200; ++i) dispatcher_->cancel(submit(i, 60));
    });
  std::atomic<bool> drained{false};
  std::thread runner([&] {
    while (!drained) {
      rank_->run_if_started();
      std::this_thread::yield();
    }
  });
  for (std::thread& caller : callers) caller.join();
  dispatcher_->drain();
  drained = true;
  runner.join();
  EXPECT_EQ(outcomes().size(), 800U);
}

TEST_F(DispatcherTest, DestructionAnswersWhatIsLeftAsCancelled) {
  for (int32_t i = 0; i < 20; ++i) (void)submit(i, 60);
  dispatcher_.reset();
  EXPECT_EQ(outcomes_.size(), 20U);
  for (const auto& [id, outcome] : outcomes_) EXPECT_EQ(std::get<Failure>(outcome).code, ErrorCode::kCancelled) << id;
}

TEST_F(DispatcherTest, SubmitWaitsWhileTooManyAreUnanswered) {
  for (int32_t i = 0; i < 32; ++i) (void)submit(i, 64);
  std::atomic<bool> taken{false};
  std::thread producer([&] {
    (void)submit(99, 64);
    taken = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(taken) << "the 33rd request was taken though the limit is 32";
  rank_->run_one();
  producer.join();
  EXPECT_TRUE(taken);
}

TEST_F(DispatcherTest, SubmitWaitsWhileUnansweredRequestsTakeTooMuchMemory) {
  // The third goes beyond the limit, which is where it stops.
  for (int32_t i = 0; i < 3; ++i) (void)submit(i, 4000);
  std::atomic<bool> taken{false};
  std::thread producer([&] {
    (void)submit(99, 4000);
    taken = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(taken) << "a fourth request was taken though two and a half are the limit";
  rank_->run_one();
  producer.join();
  EXPECT_TRUE(taken);
}

}  // namespace
}  // namespace zp
