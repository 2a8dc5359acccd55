// The scheduler under random operations, against a model of what the devices' memory would hold: every block that a
// step reads must hold exactly the tokens that its sequence has there, however requests fail, leave and return.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/schedule/scheduler_under_test.h"

namespace zp {
namespace {

// Everything collides with everything.
BlockHash weak_hash(BlockHash, std::span<const int32_t>) { return {}; }

/// A block's keys and values are determined by the namespace and all tokens up to its end.
using Content = std::pair<std::string, std::vector<int32_t>>;

Content content_of(const ScheduleRequest& request, int32_t block) {
  const auto end = request.tokens.begin() + (block + 1) * kBlockTokens;
  return {request.cache_namespace, {request.tokens.begin(), end}};
}

class RandomRun {
 public:
  RandomRun(uint32_t seed, bool large_pools, BlockHashFunction hash)
      : random_(seed),
        hash_(hash),
        large_pools_(large_pools),
        config_(pick_config()),
        t_(SchedulerUnderTest::WithEvenLastSteps(), config_) {
    pools_.resize(static_cast<size_t>(config_.ranks()));
    for (size_t rank = 0; rank < pools_.size(); ++rank)
      pools_[rank].resize(static_cast<size_t>(config_.pool_blocks[rank]));
    steps_.resize(pools_.size());
    had_.resize(pools_.size());
  }

  void step() {
    const int32_t choice = below(10);
    if (choice < 4) {
      submit();
    } else if (choice == 4) {
      cancel();
    } else if (choice < 8) {
      next(below(config_.ranks()));
    } else if (choice == 8) {
      finish(below(config_.ranks()), below(6) == 0);
    } else if (below(5) == 0) {
      recall(below(config_.ranks()));
    } else {
      finish(below(config_.ranks()), false);
    }
    t_.clock.now += below(50);
  }

  void drain() {
    for (int32_t i = 0; i < 1000 && !waiting_.empty(); ++i) {
      for (int32_t rank = 0; rank < config_.ranks(); ++rank) {
        next(rank);
        finish(rank, false);
      }
    }
    for (int32_t rank = 0; rank < config_.ranks(); ++rank)
      while (!steps_[static_cast<size_t>(rank)].empty()) finish(rank, false);
    ASSERT_TRUE(waiting_.empty());
    const SchedulerStats stats = t_.scheduler.stats();
    ASSERT_EQ(stats.queued + stats.in_steps, 0);
    ASSERT_EQ(stats.requests_done + stats.requests_failed + stats.requests_cancelled, submitted_);
    ASSERT_EQ(stats.requests_cancelled, cancelled_count_);
    ASSERT_EQ(stats.computed_tokens, computed_);
    ASSERT_EQ(stats.hit_tokens, hits_);
  }

 private:
  int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit)); }

  SchedulerConfig pick_config() {
    SchedulerConfig config{.pool_blocks = {},
                           .load = token_load(20 + below(200)),
                           .step_tokens_max = 60 + below(300),
                           .max_request_tokens = 400,
                           .look_ahead = 1 + below(20),
                           .bypass_max = 1 + below(30),
                           .deadline_slack_ns = 100,
                           .keep_one_off_blocks = below(4) != 0,
                           .one_off_share = below(3) / 4.0};
    for (int32_t rank = 1 + below(3); rank > 0; --rank)
      config.pool_blocks.push_back(large_pools_ ? 5000 : below(3) == 0 ? 0 : below(40));
    if (large_pools_) config.keep_one_off_blocks = true;
    config.even_last_steps = below(2) == 0;
    return config;
  }

  void submit() {
    std::vector<int32_t> tokens;
    for (int32_t blocks = below(8); blocks > 0; --blocks) tokens.insert(tokens.end(), kBlockTokens, below(2));
    tokens.resize(tokens.size() + static_cast<size_t>(below(4) == 0 ? 0 : below(kBlockTokens)), 1);
    if (tokens.empty()) tokens.push_back(1);
    ScheduleRequest request = request_of(next_id_++, tokens, below(4) == 0 ? "m" : "n");
    request.chain = BlockChain(request.cache_namespace, tokens, hash_);
    request.priority = below(8) == 0 ? below(3) : 0;
    if (below(8) == 0) request.deadline_ns = t_.clock.now + below(400);
    waiting_.emplace(request.id, request);
    ++submitted_;
    t_.submit(std::move(request));
  }

  void cancel() {
    if (next_id_ == 1) return;
    const auto id = static_cast<uint64_t>(1 + below(static_cast<int32_t>(next_id_ - 1)));
    const bool in_step = std::ranges::any_of(in_step_, [&](const auto& entry) { return entry.first == id; });
    const CancelResult expected = waiting_.contains(id) ? CancelResult::kRemoved
                                  : in_step             ? CancelResult::kInStep
                                                        : CancelResult::kUnknown;
    ASSERT_EQ(t_.scheduler.cancel(id), expected);
    if (waiting_.erase(id) > 0) ++cancelled_count_;
    if (in_step && cancelled_.insert(id).second) ++cancelled_count_;
    t_.scheduler.check_invariants();
  }

  void next(int32_t rank) {
    const auto r = static_cast<size_t>(rank);
    const std::optional<StepPlan> step =
        t_.next(rank, std::array{StepFill::kAny, StepFill::kFullOnly, StepFill::kRest}[static_cast<size_t>(below(3))]);
    if (!step) return;
    ASSERT_LT(steps_[r].size(), 2U);
    check_limits(*step);
    std::set<Content> in_this_step;
    for (const Segment& segment : step->segments) {
      const auto found = waiting_.find(segment.request);
      ASSERT_NE(found, waiting_.end());
      const ScheduleRequest& request = found->second;
      ASSERT_EQ(segment.end, static_cast<int32_t>(request.tokens.size()));
      ASSERT_LT(segment.begin, segment.end);
      ASSERT_EQ(segment.begin, static_cast<int32_t>(segment.prefix.size()) * kBlockTokens);
      check_longest_match(rank, segment, request, in_this_step);
      for (int32_t block = 0; block < segment.end / kBlockTokens; ++block)
        in_this_step.insert(content_of(request, block));
      computed_ += segment.tokens();
      hits_ += segment.begin;
      in_step_.emplace(segment.request, request);
      waiting_.erase(found);
    }
    for (const Segment& segment : step->segments)
      for (const BlockStore& store : segment.keep)
        had_[r].insert(content_of(in_step_.at(segment.request), store.block));
    steps_[r].push_back(*step);
  }

  void check_limits(const StepPlan& step) const {
    int64_t rows = 0;
    for (const Segment& segment : step.segments) {
      ASSERT_EQ(segment.row, rows);
      rows += segment.tokens();
    }
    ASSERT_EQ(step.tokens, rows);
    ASSERT_TRUE(rows <= config_.step_tokens_max || step.segments.size() == 1);
    const bool reached = step.load >= step.target;
    ASSERT_EQ(reached, step.filled_by == StopReason::kTarget);
    ASSERT_LT(step.load - step.segments.back().tokens(), std::max(step.target, config_.load.target));
    // Twice the target, or what the longest request makes more of; and what is left goes along if it is no more than a
    // transfer a rank.
    const double longest = std::ranges::max(step.segments, {}, &Segment::tokens).tokens();
    ASSERT_LT(step.target,
              std::max(config_.load.target, longest) + config_.load.target + config_.ranks() * config_.load.floor);
    if (!config_.even_last_steps) {
      ASSERT_EQ(step.target, config_.load.target);
    }
  }

  // With pools so large that nothing is ever evicted, a rank has what was ever kept there and did not fail.
  void check_longest_match(int32_t rank, const Segment& segment, const ScheduleRequest& request,
                           const std::set<Content>& in_this_step) const {
    int32_t longest = 0;
    while ((longest + 1) * kBlockTokens < segment.end) {
      const Content content = content_of(request, longest);
      const bool held = large_pools_ && had_[static_cast<size_t>(rank)].contains(content);
      if (!held && !in_this_step.contains(content)) break;
      ++longest;
    }
    const auto reused = static_cast<int32_t>(segment.prefix.size());
    if (large_pools_) {
      ASSERT_EQ(reused, longest);
    } else {
      ASSERT_GE(reused, longest);
    }
  }

  // Runs a rank's oldest step on the model of its memory.
  void finish(int32_t rank, bool fails) {
    const auto r = static_cast<size_t>(rank);
    if (steps_[r].empty()) return;
    const StepPlan step = steps_[r].front();
    steps_[r].erase(steps_[r].begin());
    run(step, fails);
    const std::vector<uint64_t> recalled = t_.finish(step.id, fails ? StepOutcome::kFailed : StepOutcome::kDone);
    for (const Segment& segment : step.segments) {
      in_step_.erase(segment.request);
      cancelled_.erase(segment.request);
    }
    const bool relied = fails && !steps_[r].empty() && steps_[r].front().relies_on == step.id;
    ASSERT_EQ(recalled.size(), relied ? 1U : 0U);
    if (!relied) return;
    ASSERT_EQ(recalled.front(), steps_[r].front().id);
    take_back(steps_[r].front());
    steps_[r].clear();
  }

  void recall(int32_t rank) {
    const auto r = static_cast<size_t>(rank);
    if (steps_[r].empty()) return;
    t_.scheduler.recall_step(steps_[r].back().id);
    t_.scheduler.check_invariants();
    take_back(steps_[r].back());
    steps_[r].pop_back();
  }

  void take_back(const StepPlan& step) {
    for (const Segment& segment : step.segments) {
      ScheduleRequest request = in_step_.at(segment.request);
      in_step_.erase(segment.request);
      computed_ -= segment.tokens();
      hits_ -= segment.begin;
      for (const BlockStore& store : segment.keep)
        had_[static_cast<size_t>(step.rank)].erase(content_of(request, store.block));
      if (cancelled_.erase(segment.request) == 0) waiting_.emplace(segment.request, std::move(request));
    }
  }

  void run(const StepPlan& step, bool fails) {
    std::vector<Content>& pool = pools_[static_cast<size_t>(step.rank)];
    std::map<int64_t, Content> rows;  // fresh blocks by the row where they start
    std::set<BlockId> read;
    std::set<BlockId> written;
    for (const Segment& segment : step.segments) {
      const ScheduleRequest& request = in_step_.at(segment.request);
      for (int32_t block = 0; block < static_cast<int32_t>(segment.prefix.size()); ++block) {
        const BlockSource& source = segment.prefix[static_cast<size_t>(block)];
        if (source.kind == BlockSource::Kind::kPool) {
          ASSERT_EQ(pool.at(static_cast<size_t>(source.value)), content_of(request, block));
          read.insert(static_cast<BlockId>(source.value));
        } else {
          ASSERT_TRUE(rows.contains(source.value)) << "row " << source.value << " is in no earlier segment";
          ASSERT_EQ(rows.at(source.value), content_of(request, block));
        }
      }
      for (int32_t block = segment.begin / kBlockTokens; block < segment.end / kBlockTokens; ++block)
        rows.emplace(segment.row + block * kBlockTokens - segment.begin, content_of(request, block));
      for (const BlockStore& store : segment.keep)
        ASSERT_TRUE(written.insert(store.pool_block).second) << "two blocks in one place";
    }
    for (const Segment& segment : step.segments) {
      const ScheduleRequest& request = in_step_.at(segment.request);
      for (const BlockStore& store : segment.keep) {
        ASSERT_FALSE(read.contains(store.pool_block)) << "the step overwrites what it reads";
        // A failed step leaves anything behind.
        pool.at(static_cast<size_t>(store.pool_block)) = fails ? Content{} : content_of(request, store.block);
        if (fails) had_[static_cast<size_t>(step.rank)].erase(content_of(request, store.block));
      }
    }
  }

  std::mt19937 random_;
  BlockHashFunction hash_;
  bool large_pools_;
  SchedulerConfig config_;
  SchedulerUnderTest t_;
  std::map<uint64_t, ScheduleRequest> waiting_;
  std::map<uint64_t, ScheduleRequest> in_step_;
  std::set<uint64_t> cancelled_;  // while in a step
  std::vector<std::vector<StepPlan>> steps_;
  std::vector<std::vector<Content>> pools_;  // [rank][block]
  std::vector<std::set<Content>> had_;       // [rank] kept and not failed; with large pools, what it has
  uint64_t next_id_ = 1;
  int64_t submitted_ = 0;
  int64_t cancelled_count_ = 0;
  int64_t computed_ = 0;
  int64_t hits_ = 0;
};

void run_seeds(bool large_pools, BlockHashFunction hash) {
  for (uint32_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomRun run(seed, large_pools, hash);
    for (int i = 0; i < 250; ++i) {
      run.step();
      if (testing::Test::HasFatalFailure()) return;
    }
    run.drain();
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(SchedulerRandom, StepsReadExactlyTheTokensOfTheirSequences) { run_seeds(false, hash_block); }

TEST(SchedulerRandom, MatchesAreTheLongestThereAre) { run_seeds(true, hash_block); }

TEST(SchedulerRandom, StepsReadExactlyTheTokensOfTheirSequencesWhenHashesCollide) { run_seeds(false, weak_hash); }

}  // namespace
}  // namespace zp
