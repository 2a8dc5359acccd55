// A scheduler with a clock that stands still, and short ways to ask it things.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "zp/schedule/scheduler.h"

namespace zp {

class ManualClock final : public Clock {
 public:
  [[nodiscard]] int64_t now_ns() const override { return now; }
  int64_t now = 0;
};

/// One MoE layer; the scheduler's choices here depend on tokens alone.
inline ModelShape tiny_shape() {
  return {.family = "qwen3_moe",
          .layers = 1,
          .hidden = 8,
          .query_heads = 2,
          .kv_heads = 1,
          .head_dim = 4,
          .vocabulary = 16,
          .max_positions = 1 << 17,
          .experts = 4,
          .experts_per_token = 2,
          .expert_intermediate = 8,
          .feed_forward = {FeedForward::kMoe}};
}

/// `count` tokens that no other `stream` has.
inline std::vector<int32_t> text(int32_t stream, int32_t count) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(stream * 1'000'000 + i);
  return tokens;
}

inline std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline ScheduleRequest request_of(uint64_t id, std::vector<int32_t> tokens, std::string cache_namespace = "n") {
  BlockChain chain(cache_namespace, tokens);
  return {.id = id,
          .tokens = std::move(tokens),
          .cache_namespace = std::move(cache_namespace),
          .chain = std::move(chain),
          .deadline_ns = {}};
}

/// The rule without an end of the queue in sight, as most tests want it: they have few requests.
inline SchedulerConfig filled_to_target(SchedulerConfig config) {
  config.even_last_steps = false;
  return config;
}

class SchedulerUnderTest {
 public:
  explicit SchedulerUnderTest(SchedulerConfig config, std::unique_ptr<const RoutePolicy> policy = nullptr)
      : SchedulerUnderTest(WithEvenLastSteps(), filled_to_target(std::move(config)), std::move(policy)) {}

  struct WithEvenLastSteps {};
  SchedulerUnderTest(WithEvenLastSteps /*tag*/, SchedulerConfig config,
                     std::unique_ptr<const RoutePolicy> policy = nullptr)
      : scheduler(std::move(config), tiny_shape(), clock, std::move(policy)) {}

  void submit(uint64_t id, std::vector<int32_t> tokens) { submit(request_of(id, std::move(tokens))); }
  void submit(ScheduleRequest request) { ASSERT_EQ(scheduler.submit(std::move(request)), SubmitResult::kAccepted); }

  std::optional<StepPlan> next(int32_t rank = 0, StepFill fill = StepFill::kAny) {
    std::optional<StepPlan> step = scheduler.next_step(rank, fill);
    scheduler.check_invariants();
    return step;
  }

  std::vector<uint64_t> finish(uint64_t step, StepOutcome outcome = StepOutcome::kDone) {
    std::vector<uint64_t> recalled = scheduler.finish_step(step, outcome);
    scheduler.check_invariants();
    return recalled;
  }

  /// Runs one step of a rank to its end.
  std::optional<StepPlan> run(int32_t rank = 0) {
    std::optional<StepPlan> step = next(rank);
    if (step) finish(step->id);
    return step;
  }

  ManualClock clock;
  Scheduler scheduler;
};

/// The requests of a step, in order.
inline std::vector<uint64_t> ids(const std::optional<StepPlan>& step) {
  std::vector<uint64_t> out;
  if (step)
    for (const Segment& segment : step->segments) out.push_back(segment.request);
  return out;
}

inline std::vector<uint64_t> list(std::initializer_list<uint64_t> values) { return values; }

}  // namespace zp
