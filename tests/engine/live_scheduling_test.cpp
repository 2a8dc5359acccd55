// What the scheduler promises, seen from the engine: which rank runs what, in which order, and what it costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "tests/engine/manual_rank.h"
#include "zp/engine/dispatcher.h"
#include "zp/schedule/policy.h"

namespace zp {
namespace {

using test::ManualRank;
using test::small_shape;
using ::testing::ElementsAre;

// Time stands still until the test moves it.
class SetClock final : public Clock {
 public:
  [[nodiscard]] int64_t now_ns() const override { return now_ns_; }
  void set(int64_t now_ns) { now_ns_ = now_ns; }

 private:
  std::atomic<int64_t> now_ns_{0};
};

struct Wanted {
  int32_t priority = 0;
  std::optional<int64_t> deadline_ns{};
  bool answered = true;  // else it fails
};

class LiveScheduling : public ::testing::Test {
 protected:
  // A step is full with `target` tokens, at the end of the queue too.
  void make(int32_t ranks, const std::string& policy = "prefix-saturation", int64_t target = 64) {
    SchedulerConfig config;
    config.pool_blocks.assign(static_cast<size_t>(ranks), 1024);
    config.load = token_load(target);
    config.step_tokens_max = 4 * target;
    config.even_last_steps = false;
    config.queue_max = 256;
    config.bypass_max = bypass_max_;
    dispatcher_ = std::make_unique<Dispatcher>(
        config, small_shape(), *clock_,
        [this](int32_t, StepRunner::Report report) {
          auto rank = std::make_unique<ManualRank>(std::move(report), clock_);
          ranks_.push_back(rank.get());
          return rank;
        },
        Dispatcher::Options{.policy = policy});
  }

  uint64_t submit(std::vector<int32_t> tokens, const Wanted& wanted = {}) {
    CheckedRequest request;
    request.schedule.chain = BlockChain("", tokens);
    request.schedule.tokens = std::move(tokens);
    request.schedule.priority = wanted.priority;
    request.deadline_ns = wanted.deadline_ns;
    request.candidates = {1};
    const int32_t last = request.schedule.tokens.back();
    return dispatcher_->submit(std::move(request), [this, last, wanted](uint64_t, const Outcome& outcome) {
      EXPECT_EQ(std::holds_alternative<Answer>(outcome), wanted.answered);
      answered_.push_back(last);
      if (last == kHold) {
        held_.set_value();
        release_.get_future().wait();
      }
    });
  }
  // Of 64 tokens, with nothing in common with others.
  void submit_full(int32_t number) { (void)submit(std::vector<int32_t>(64, number)); }

  // Holds the scheduling thread, in the callback of a request that the first rank runs: what is submitted until
  // release() is there at once.
  void hold() {
    submit_holding(1);
    (void)ranks_[0]->run_one();
    wait_until_held();
    answered_.clear();
  }
  // A request in whose callback the scheduling thread is held.
  void submit_holding(size_t tokens) {
    held_ = {};
    release_ = {};
    (void)submit(std::vector<int32_t>(tokens, kHold));
  }
  void wait_until_held() { held_.get_future().wait(); }
  void release() { release_.set_value(); }

  // Runs whatever there is until all is answered.
  void run_all() {
    auto drained = std::async(std::launch::async, [this] { dispatcher_->drain(); });
    while (drained.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
      for (ManualRank* rank : ranks_) rank->run_if_started();
  }

  static constexpr int32_t kHold = 999;
  int32_t bypass_max_ = 4096;

  SteadyClock steady_clock_;
  const Clock* clock_ = &steady_clock_;
  std::promise<void> held_;
  std::promise<void> release_;
  std::vector<int32_t> answered_;  // last tokens, in order; the scheduling thread's while it is not held or drained
  std::vector<ManualRank*> ranks_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

TEST_F(LiveScheduling, EveryIdleRankGetsAStepBeforeAnyGetsTwo) {
  for (const std::string_view policy : policy_names()) {
    SCOPED_TRACE(policy);
    ranks_.clear();
    make(3, std::string(policy));
    hold();
    for (int32_t i = 0; i < 3; ++i) submit_full(i);
    release();
    for (ManualRank* rank : ranks_) EXPECT_EQ(rank->run_one(), 64U);
    dispatcher_->drain();
    for (const RankStats& rank : dispatcher_->stats().ranks) EXPECT_EQ(rank.staged_steps, 0);
  }
}

// With enough waiting, the next step is there when one ends: a rank waits for nobody, whatever the planner does.
TEST_F(LiveScheduling, ARankNeverWaitsForThePlannerWhileFullStepsAreQueued) {
  for (const std::string_view policy : policy_names()) {
    SCOPED_TRACE(policy);
    ranks_.clear();
    make(2, std::string(policy));
    hold();
    for (int32_t i = 0; i < 20; ++i) submit_full(i);
    release();
    std::vector<double> waited;  // before the first steps
    for (size_t left = 10; left > 0; --left) {
      for (size_t r = 0; r < ranks_.size(); ++r) {
        // All ranks have the step to be run and the next one, without any step having to end for it. (One rank whose
        // report has not been handled could lose its turn to the other, who would get the last request.)
        for (size_t other = 0; other < ranks_.size(); ++other)
          while (ranks_[other]->started() < std::min<size_t>(2, other < r ? left - 1 : left)) std::this_thread::yield();
        (void)ranks_[r]->run_one();
      }
      if (!waited.empty()) continue;
      for (const RankStats& rank : dispatcher_->stats().ranks) waited.push_back(rank.planner_wait_seconds);
    }
    dispatcher_->drain();
    const std::vector<RankStats> ranks = dispatcher_->stats().ranks;
    for (size_t r = 0; r < ranks.size(); ++r) {
      const RankStats& rank = ranks[r];
      EXPECT_EQ(rank.staged_steps, 9) << "of ten";
      EXPECT_EQ(rank.planner_wait_seconds, waited[r]);
      EXPECT_NEAR(rank.fill, 1, 0.1);
    }
  }
}

// Of what is counted, in nanoseconds that the test sets.
class PlannerWait : public LiveScheduling {
 public:
  PlannerWait() { clock_ = &time_; }
  ~PlannerWait() override { dispatcher_.reset(); }  // whose thread reads the clock
  PlannerWait(const PlannerWait&) = delete;
  PlannerWait& operator=(const PlannerWait&) = delete;

 protected:
  void wait_for_step(size_t rank) {
    while (ranks_[rank]->started() == 0) std::this_thread::yield();
  }
  [[nodiscard]] double waited_ns(size_t rank) const {
    return dispatcher_->stats().ranks[rank].planner_wait_seconds * 1e9;
  }
  // 40 tokens are no full step, so they are not staged.
  void submit_rest() { (void)submit(std::vector<int32_t>(40, 2)); }

  SetClock time_;
};

TEST_F(PlannerWait, IsCountedFromAStepsEndIfRequestsWaitedThen) {
  make(1);
  submit_holding(1);
  wait_for_step(0);
  time_.set(100);
  submit_rest();
  time_.set(200);
  (void)ranks_[0]->run_one();
  wait_until_held();
  time_.set(300);
  release();
  wait_for_step(0);
  EXPECT_NEAR(waited_ns(0), 100, 0.01);
  run_all();
}

TEST_F(PlannerWait, IsCountedFromTheArrivalAtAnIdleRank) {
  make(1);
  hold();
  time_.set(250);
  submit_rest();
  time_.set(300);
  release();
  wait_for_step(0);
  EXPECT_NEAR(waited_ns(0), 50, 0.01);
  run_all();
}

// Both ranks are idle when one request waits: one rank gets it, and from then on nothing waits for the other one.
TEST_F(PlannerWait, EndsWhenAnotherRankTakesTheLastRequest) {
  make(2);
  submit_holding(64);
  wait_for_step(0);
  submit_full(1);
  wait_for_step(1);
  time_.set(100);
  submit_rest();
  time_.set(200);
  (void)ranks_[0]->run_one();
  wait_until_held();
  time_.set(300);
  (void)ranks_[1]->run_one();
  time_.set(400);
  release();
  while (ranks_[0]->started() + ranks_[1]->started() == 0) std::this_thread::yield();
  run_all();
  time_.set(1000);
  submit_full(3);
  submit_full(4);
  wait_for_step(0);
  wait_for_step(1);
  EXPECT_NEAR(waited_ns(0), 200, 0.01);
  EXPECT_NEAR(waited_ns(1), 100, 0.01);
  run_all();
}

TEST_F(LiveScheduling, PoliciesChooseRanks) {
  // What is held counts as the first request of round robin.
  make(2, "round-robin");
  hold();
  for (int32_t i = 0; i < 4; ++i) (void)submit({i, i});
  release();
  EXPECT_EQ(ranks_[1]->run_one(), 4U) << "the first and the third";
  EXPECT_EQ(ranks_[0]->run_one(), 4U);
  dispatcher_->drain();
}

// Ten requests of 4,096 tokens in common and 21, 22, ... 30 of their own.
class TenRequests : public LiveScheduling {
 protected:
  static constexpr int64_t kSuffixes = 255;
  void submit_tenth(int32_t i) {
    std::vector<int32_t> tokens;
    for (int32_t t = 0; t < 4096; ++t) tokens.push_back(t % 900);
    tokens.insert(tokens.end(), static_cast<size_t>(21 + i), i);
    (void)submit(std::move(tokens));
  }
  void expect_one_prefix() {
    const EngineStats stats = dispatcher_->stats();
    int32_t busy = 0;
    int64_t computed = 0;
    for (const RankStats& rank : stats.ranks) {
      busy += rank.computed_tokens > 1 ? 1 : 0;  // one token is what held the scheduling thread
      computed += rank.computed_tokens;
    }
    EXPECT_EQ(busy, 1);
    EXPECT_EQ(computed - held_tokens_, 4096 + kSuffixes);
    EXPECT_EQ(stats.cached_tokens, 9 * 4096);
  }
  int64_t held_tokens_ = 0;
};

TEST_F(TenRequests, AtOnceGoToOneRankAndCostOnePrefixAndTenSuffixes) {
  make(4, "prefix-saturation", 8192);
  hold();
  held_tokens_ = 1;
  for (int32_t i = 0; i < 10; ++i) submit_tenth(i);
  release();
  run_all();
  expect_one_prefix();
}

TEST_F(TenRequests, OneAfterAnotherToo) {
  make(4, "prefix-saturation", 8192);
  for (int32_t i = 0; i < 10; ++i) {
    submit_tenth(i);
    run_all();
  }
  expect_one_prefix();
}

// Those that come while the first runs rely on what it has promised.
TEST_F(TenRequests, WhileTheFirstRunsToo) {
  make(4, "prefix-saturation", 4096);
  submit_tenth(0);
  while (dispatcher_->stats().steps == 0 && ranks_[0]->started() == 0) {
  }
  for (int32_t i = 1; i < 10; ++i) submit_tenth(i);
  // The other ranks are idle and below target: F1 prefers the match.
  run_all();
  const EngineStats stats = dispatcher_->stats();
  EXPECT_EQ(stats.computed_tokens, 4096 + kSuffixes);
}

// The running step fails that was to make the prefix which the staged one reads: nine requests are planned anew, where
// nothing is promised, and cost a prefix again. (The one that was running has one more try too.)
TEST_F(TenRequests, ABrokenPromiseIsPlannedAnewElsewhere) {
  make(2, "prefix-saturation", 4096);
  submit_tenth(0);
  while (ranks_[0]->started() == 0) std::this_thread::yield();
  for (int32_t i = 1; i < 10; ++i) submit_tenth(i);
  (void)ranks_[0]->run_one(std::make_exception_ptr(Error(ErrorCode::kDevice, "the card fell off")));
  // What it had been given besides is dropped, whatever comes of it.
  run_all();
  const EngineStats stats = dispatcher_->stats();
  EXPECT_EQ(stats.answered, 10);
  EXPECT_EQ(stats.ranks[0].computed_tokens, 0);
  EXPECT_EQ(stats.ranks[1].computed_tokens, 4096 + kSuffixes);
}

TEST_F(LiveScheduling, HigherPrioritiesGoFirst) {
  make(1);
  hold();
  (void)submit(std::vector<int32_t>(64, 1));
  (void)submit(std::vector<int32_t>(64, 2), {.priority = 1, .deadline_ns = {}});
  (void)submit(std::vector<int32_t>(64, 3), {.priority = 2, .deadline_ns = {}});
  release();
  run_all();
  EXPECT_THAT(answered_, ElementsAre(3, 2, 1));
}

TEST_F(LiveScheduling, NobodyIsPassedForEver) {
  bypass_max_ = 5;
  make(1);
  hold();
  submit_full(100);
  for (int32_t i = 0; i < 12; ++i) (void)submit(std::vector<int32_t>(64, i), {.priority = 1, .deadline_ns = {}});
  release();
  run_all();
  EXPECT_EQ(std::ranges::find(answered_, 100) - answered_.begin(), 5);
}

TEST_F(LiveScheduling, CancelledRequestsLeaveBeforeTheyCostAnything) {
  make(1);
  hold();
  submit_full(1);
  const uint64_t cancelled = submit({2, 2, 2}, {.priority = 0, .deadline_ns = {}, .answered = false});
  (void)submit({3, 3});
  dispatcher_->cancel(cancelled);
  release();
  run_all();
  EXPECT_EQ(dispatcher_->stats().ranks[0].computed_tokens, 1 + 64 + 2);
  EXPECT_EQ(dispatcher_->stats().failed, 1);
}

// Nothing happens but that time passes: a deadline 50 ms beyond the second from which on it presses. Until then the
// request waits for rank 0, which makes its prefix.
TEST_F(TenRequests, OneThatWaitsForItsPrefixGoesToAnIdleRankOnceItsDeadlinePresses) {
  make(2, "prefix-saturation", 8192);
  submit_tenth(0);
  while (ranks_[0]->started() == 0) std::this_thread::yield();
  std::vector<int32_t> tokens;
  for (int32_t t = 0; t < 4096; ++t) tokens.push_back(t % 900);
  tokens.push_back(7);
  (void)submit(std::move(tokens), {.priority = 0, .deadline_ns = 1'050'000'000});
  EXPECT_EQ(ranks_[1]->run_one(), 4097U);
  run_all();
}

// A deadline nearer than a second presses: its request goes first and takes nothing along; one far away does nothing.
TEST_F(LiveScheduling, APressingDeadlineGoesFirstAndAlone) {
  make(1);
  hold();
  (void)submit({1, 1});
  (void)submit({2, 2}, {.priority = 0, .deadline_ns = 3'600'000'000'000});
  (void)submit({3, 3, 3}, {.priority = 0, .deadline_ns = 1'000'000});
  release();
  EXPECT_EQ(ranks_[0]->run_one(), 3U);
  EXPECT_EQ(ranks_[0]->run_one(), 4U);
  dispatcher_->drain();
  EXPECT_THAT(answered_, ElementsAre(3, 1, 2));
}

}  // namespace
}  // namespace zp
