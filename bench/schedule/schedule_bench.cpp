// What a scheduling decision costs on the host: 8 ranks, a full index, requests of 1,000 blocks (16,000 tokens).
// Run with --benchmark_repetitions=20 --benchmark_report_aggregates_only=true for medians and spread.
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

constexpr int32_t kRanks = 8;
constexpr int32_t kBlocks = 1000;
constexpr int32_t kPoolBlocks = 20'000;

using bench::kNamespace;
using bench::request_of;
using bench::shape;
using bench::text;

/// An index in which every rank's pool is nearly full of other sequences, and rank r holds r / 8 of stream 0.
class FullIndex {
 public:
  FullIndex() : config_{.pool_blocks = std::vector<int32_t>(kRanks, kPoolBlocks)}, index_(config_.pool_blocks) {
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      for (int32_t i = 0; i < kPoolBlocks / kBlocks - 2; ++i) keep(rank, text(1 + rank * 100 + i, kBlocks));
      if (rank > 0) keep(rank, text(0, kBlocks * rank / kRanks));
    }
  }

  void keep(int32_t rank, const std::vector<int32_t>& tokens) {
    const BlockChain chain(kNamespace, tokens);
    const auto path = index_.acquire({.cache_namespace = kNamespace, .tokens = tokens, .chain = &chain});
    const auto made = std::span(path).subspan(static_cast<size_t>(index_.pin(rank, path)));
    benchmark::DoNotOptimize(index_.promise(rank, made, false));
    for (const NodeId node : made) index_.commit(rank, node);
    index_.unpin(rank, path);
    index_.release(path);
  }

  SchedulerConfig config_;
  PrefixIndex index_;
};

FullIndex& full_index() {
  static FullIndex index;
  return index;
}

void chain_of_hashes(benchmark::State& state) {
  const std::vector<int32_t> tokens = text(0, kBlocks);
  for (auto _ : state) benchmark::DoNotOptimize(BlockChain(kNamespace, tokens));
}
BENCHMARK(chain_of_hashes)->Unit(benchmark::kMicrosecond);

// Finding, verifying and referencing the blocks: once for each request.
void find_blocks(benchmark::State& state) {
  PrefixIndex& index = full_index().index_;
  // Stream 0 is held up to 7/8 by rank 7; stream 9999 by nobody, so that its nodes are made and removed.
  const ScheduleRequest request = request_of(1, text(state.range(0) == 0 ? 0 : 9999, kBlocks));
  for (auto _ : state) {
    const auto path = index.acquire({.cache_namespace = kNamespace, .tokens = request.tokens, .chain = &request.chain});
    index.release(path);
  }
}
BENCHMARK(find_blocks)->ArgName("unknown")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

// One request through a plan: matched against every rank, placed on one, its kept blocks chosen.
void match_and_place(benchmark::State& state) {
  FullIndex& full = full_index();
  const CostModel cost(shape());
  const PrefixSaturationPolicy policy;
  QueuedRequest request;
  request.sequence = 1;
  request.request = request_of(1, text(state.range(0) == 0 ? 0 : 9999, kBlocks));
  request.path = full.index_.acquire(
      {.cache_namespace = kNamespace, .tokens = request.request.tokens, .chain = &request.request.chain});
  Waiting waiting = glance(request);
  const std::vector<const Waiting*> window = {&waiting};
  const std::vector<RankView> ranks(kRanks, RankView{.open = true});
  for (auto _ : state) {
    waiting.matched = false;
    update_match(waiting, full.index_, open_ranks(ranks));
    benchmark::DoNotOptimize(plan_batch({.window = window,
                                         .index = &full.index_,
                                         .ranks = ranks,
                                         .config = &full.config_,
                                         .cost = &cost,
                                         .policy = &policy}));
  }
  full.index_.release(request.path);
}
BENCHMARK(match_and_place)->ArgName("unknown")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

// Everything: submit, find, match, place, promise with evictions, finish. Every request is new after `shared` blocks.
void whole_request(benchmark::State& state) {
  const SteadyClock clock;
  Scheduler scheduler({.pool_blocks = std::vector<int32_t>(kRanks, kPoolBlocks)}, shape(), clock);
  const auto shared = static_cast<int32_t>(state.range(0));
  uint64_t id = 0;
  for (auto _ : state) {
    state.PauseTiming();
    ++id;
    std::vector<int32_t> tokens = text(0, shared);
    const std::vector<int32_t> rest = text(static_cast<int32_t>(id % 20'000), kBlocks - shared);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    ScheduleRequest request = request_of(id, std::move(tokens));
    state.ResumeTiming();
    ZP_CHECK(scheduler.submit(std::move(request)) == SubmitResult::kAccepted, "request {} was refused", id);
    for (int32_t rank = 0; rank < kRanks; ++rank)
      if (const auto step = scheduler.next_step(rank)) scheduler.finish_step(step->id, StepOutcome::kDone);
  }
}
BENCHMARK(whole_request)->ArgName("shared")->Arg(0)->Arg(900)->Unit(benchmark::kMicrosecond);

// Planning with a long queue of short requests: 2,048 of 32 blocks, half of each shared by 64 of them; a step for each
// rank.
void steps_of_a_long_queue(benchmark::State& state) {
  const SteadyClock clock;
  int64_t segments = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto scheduler = std::make_unique<Scheduler>(
        SchedulerConfig{.pool_blocks = std::vector<int32_t>(kRanks, kPoolBlocks)}, shape(), clock);
    for (int32_t i = 0; i < 2048; ++i) {
      std::vector<int32_t> tokens = text(i / 64, 16);
      const std::vector<int32_t> rest = text(100 + i, 16);
      tokens.insert(tokens.end(), rest.begin(), rest.end());
      ZP_CHECK(scheduler->submit(request_of(static_cast<uint64_t>(i), std::move(tokens))) == SubmitResult::kAccepted,
               "request {} was refused", i);
    }
    state.ResumeTiming();
    for (int32_t rank = 0; rank < kRanks; ++rank)
      segments += static_cast<int64_t>(scheduler->next_step(rank)->segments.size());
    state.PauseTiming();
    scheduler.reset();
    state.ResumeTiming();
  }
  state.counters["requests"] = static_cast<double>(segments) / static_cast<double>(state.iterations());
}
BENCHMARK(steps_of_a_long_queue)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zp
