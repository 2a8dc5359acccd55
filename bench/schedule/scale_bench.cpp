// How the cost of scheduling grows: with ranks (to 1,024), cached blocks (to a million) and waiting requests (to a
// million). Figures: docs/notes/scheduling.md.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
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
  const std::vector<const QueuedRequest*> window = {&request};
  const std::vector<RankView> views(static_cast<size_t>(ranks), RankView{.open = true});
  for (auto _ : state) {
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

// A step from a queue of so many requests of 32 blocks, half of each shared by 64 of them; taken back again.
void step_by_queue(benchmark::State& state) {
  const SteadyClock clock;
  Scheduler scheduler({.pool_blocks = std::vector<int32_t>(8, 20'000)}, shape(), clock);
  const int64_t queued = state.range(0);
  for (int64_t i = 0; i < queued; ++i) {
    // Beyond the look-ahead requests are only waiting: two blocks do.
    const int32_t half = i < SchedulerConfig().look_ahead ? 16 : 1;
    std::vector<int32_t> tokens = text(static_cast<int32_t>(i / 64 % 1000), half);
    const std::vector<int32_t> rest = text(1000 + static_cast<int32_t>(i % 100'000), half);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    ZP_CHECK(scheduler.submit(request_of(static_cast<uint64_t>(i), std::move(tokens))) == SubmitResult::kAccepted,
             "request {} was refused", i);
  }
  int64_t segments = 0;
  for (auto _ : state) {
    const auto step = scheduler.next_step(0);
    segments += static_cast<int64_t>(step->segments.size());
    scheduler.recall_step(step->id);
  }
  state.counters["requests"] = static_cast<double>(segments) / static_cast<double>(state.iterations());
}
BENCHMARK(step_by_queue)
    ->ArgName("queued")
    ->RangeMultiplier(10)
    ->Range(10'000, 1'000'000)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zp
