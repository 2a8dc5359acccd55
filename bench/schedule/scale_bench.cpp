// How the cost of scheduling grows: with ranks (to 1,024), cached blocks (to a million) and waiting requests (to a
// million). Figures: docs/notes/scheduling.md.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <deque>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/schedule/requests.h"
#include "zp/base/check.h"
#include "zp/schedule/planner.h"
#include "zp/schedule/scheduler.h"

namespace zp {
namespace {

constexpr int32_t kBlocks = 1000;  // of the request that is matched

using bench::kNamespace;
using bench::request_of;
using bench::shape;
using bench::text;

/// Ranks that hold `cached` blocks together, in sequences of `kBlocks`, and each a part of stream 0: rank r the first
/// r / ranks of its blocks.
class Cached {
 public:
  Cached(int32_t ranks, int64_t cached)
      : config{.pool_blocks = std::vector<int32_t>(static_cast<size_t>(ranks),
                                                   static_cast<int32_t>(cached / ranks) + 2 * kBlocks)},
        index(config.pool_blocks) {
    int32_t stream = 1;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      keep(rank, text(0, static_cast<int32_t>(int64_t{kBlocks} * rank / ranks)));
      for (int64_t kept = 0; kept + kBlocks <= cached / ranks; kept += kBlocks) keep(rank, text(stream++, kBlocks));
    }
  }

  void keep(int32_t rank, const std::vector<int32_t>& tokens) {
    if (tokens.empty()) return;
    const BlockChain chain(kNamespace, tokens);
    const auto path = index.acquire({.cache_namespace = kNamespace, .tokens = tokens, .chain = &chain});
    const auto made = std::span(path).subspan(static_cast<size_t>(index.pin(rank, path)));
    benchmark::DoNotOptimize(index.promise(rank, made, false));
    for (const NodeId node : made) index.commit(rank, node);
    index.unpin(rank, path);
    index.release(path);
  }

  SchedulerConfig config;
  PrefixIndex index;
};

// One request of 1,000 blocks through a plan: matched against every rank, placed, its kept blocks chosen.
void match_and_place(benchmark::State& state, int32_t ranks, int64_t cached) {
  Cached fixture(ranks, cached);
  const CostModel cost(shape());
  const PrefixSaturationPolicy policy;
  QueuedRequest request;
  request.sequence = 1;
  request.request = request_of(1, text(0, kBlocks));
  request.path = fixture.index.acquire(
      {.cache_namespace = kNamespace, .tokens = request.request.tokens, .chain = &request.request.chain});
  Waiting waiting = glance(request);
  const std::vector<const Waiting*> window = {&waiting};
  const std::vector<RankView> views(static_cast<size_t>(ranks), RankView{.open = true});
  for (auto _ : state) {
    waiting.matched = false;
    update_match(waiting, fixture.index, open_ranks(views));
    benchmark::DoNotOptimize(plan_batch({.window = window,
                                         .index = &fixture.index,
                                         .ranks = views,
                                         .config = &fixture.config,
                                         .cost = &cost,
                                         .policy = &policy}));
  }
  fixture.index.release(request.path);
}

void match_by_ranks(benchmark::State& state) {
  match_and_place(state, static_cast<int32_t>(state.range(0)), state.range(0) * 2 * kBlocks);
}
BENCHMARK(match_by_ranks)->ArgName("ranks")->RangeMultiplier(2)->Range(1, 1024)->Unit(benchmark::kMicrosecond);

void match_by_cached_blocks(benchmark::State& state) { match_and_place(state, 8, state.range(0)); }
BENCHMARK(match_by_cached_blocks)
    ->ArgName("blocks")
    ->RangeMultiplier(10)
    ->Range(10'000, 1'000'000)
    ->Unit(benchmark::kMicrosecond);

/// So many requests of 32 blocks wait, half of each shared by 64 of them.
void submit_short_requests(Scheduler& scheduler, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    // Beyond the look-ahead requests are only waiting: two blocks do.
    const int32_t half = i < SchedulerConfig().look_ahead ? 16 : 1;
    std::vector<int32_t> tokens = text(static_cast<int32_t>(i / 64 % 1000), half);
    const std::vector<int32_t> rest = text(1000 + static_cast<int32_t>(i % 100'000), half);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    ZP_CHECK(scheduler.submit(request_of(static_cast<uint64_t>(i), std::move(tokens))) == SubmitResult::kAccepted,
             "request {} was refused", i);
  }
}

// Steps for these ranks from a queue of so many short requests; taken back again.
void plan_from_queue(benchmark::State& state, const SchedulerConfig& config, std::span<const int32_t> ranks) {
  const SteadyClock clock;
  Scheduler scheduler(config, shape(), clock);
  submit_short_requests(scheduler, state.range(0));
  int64_t segments = 0;
  for (auto _ : state) {
    for (const StepPlan& step : scheduler.next_steps(ranks)) {
      segments += std::ssize(step.segments);
      scheduler.recall_step(step.id);
    }
  }
  state.counters["requests"] = static_cast<double>(segments) / static_cast<double>(state.iterations());
}

void step_by_queue(benchmark::State& state) {
  plan_from_queue(state, {.pool_blocks = std::vector<int32_t>(8, 20'000)}, std::array{0});
}
BENCHMARK(step_by_queue)
    ->ArgName("queued")
    ->RangeMultiplier(10)
    ->Range(10'000, 1'000'000)
    ->Unit(benchmark::kMillisecond);

// Steps of all ranks that step_tokens_max ends, not the target: whatever waits might still fit.
void full_steps_by_queue(benchmark::State& state) {
  plan_from_queue(
      state, {.pool_blocks = std::vector<int32_t>(8, 20'000), .load = token_load(20'000), .step_tokens_max = 16'000},
      std::array{0, 1, 2, 3, 4, 5, 6, 7});
}
BENCHMARK(full_steps_by_queue)
    ->ArgName("queued")
    ->RangeMultiplier(10)
    ->Range(10'000, 1'000'000)
    ->Unit(benchmark::kMillisecond);

double cpu_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// 4,000 requests of 1,000 blocks, the first 500 of them one of 16 prefixes, arrive at once on 8 ranks, whose steps are
// filled to so many tokens; then the oldest step ends and its rank gets another, 50 times. Counters in milliseconds of
// CPU time, the later plans' as their median.
void steps_of_long_requests(benchmark::State& state) {
  constexpr int32_t kRequests = 4000;
  constexpr int32_t kPrefixes = 16;
  constexpr int32_t kLaterPlans = 50;
  const SteadyClock clock;
  std::vector<int32_t> ranks(8);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<double> submit_ms;
  std::vector<double> first_ms;
  std::vector<double> later_ms;
  for (auto _ : state) {
    Scheduler scheduler({.pool_blocks = std::vector<int32_t>(ranks.size(), 20'000),
                         .load = token_load(state.range(0)),
                         .step_tokens_max = 2 * state.range(0)},
                        shape(), clock);
    for (int32_t i = 0; i < kRequests; ++i) {
      std::vector<int32_t> tokens = text(i % kPrefixes, kBlocks / 2);
      const std::vector<int32_t> rest = text(kPrefixes + i, kBlocks / 2);
      tokens.insert(tokens.end(), rest.begin(), rest.end());
      ScheduleRequest request = request_of(static_cast<uint64_t>(i), std::move(tokens));
      const double start = cpu_ms();
      ZP_CHECK(scheduler.submit(std::move(request)) == SubmitResult::kAccepted, "request {} was refused", i);
      submit_ms.push_back(cpu_ms() - start);
    }
    std::deque<uint64_t> running;
    const auto plan = [&](std::vector<double>& times) {
      const double start = cpu_ms();
      for (const StepPlan& step : scheduler.next_steps(ranks)) running.push_back(step.id);
      times.push_back(cpu_ms() - start);
    };
    plan(first_ms);
    for (int32_t i = 0; i < kLaterPlans; ++i) {
      scheduler.finish_step(running.front(), StepOutcome::kDone);
      running.pop_front();
      plan(later_ms);
    }
  }
  const auto median = [](std::vector<double>& samples) {
    const auto middle = samples.begin() + std::ssize(samples) / 2;
    std::ranges::nth_element(samples, middle);
    return *middle;
  };
  state.counters["1 submit"] = median(submit_ms);
  state.counters["2 first plan"] = median(first_ms);
  state.counters["3 later plan"] = median(later_ms);
}
BENCHMARK(steps_of_long_requests)
    ->ArgName("target")
    ->Arg(8192)
    ->Arg(131'072)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zp
