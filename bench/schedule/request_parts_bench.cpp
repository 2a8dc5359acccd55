// What each part of a request costs, from its tokens to its end: 8 ranks with full pools, requests of up to 1,000
// blocks (16,000 tokens) whose first blocks are shared by all. Counters are medians over the requests of a run, in
// microseconds of wall-clock time; `thread` is all that the scheduling thread does. Figures: docs/notes/scheduling.md.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "bench/schedule/requests.h"
#include "zp/base/check.h"
#include "zp/base/clock.h"
#include "zp/schedule/planner.h"
#include "zp/schedule/scheduler.h"

namespace zp {
namespace {

constexpr int32_t kRanks = 8;
constexpr int32_t kPoolBlocks = 20'000;
// Requests of so many blocks until all pools are full.
constexpr int32_t warm_up(int32_t blocks) { return 2 * kRanks * kPoolBlocks / blocks; }
constexpr int32_t kTexts = 20'000;  // a text comes again when its blocks are long gone

using bench::kNamespace;
using bench::request_of;
using bench::shape;
using bench::text;

std::vector<int32_t> tokens_of(int64_t number, int32_t blocks, int32_t shared) {
  std::vector<int32_t> tokens = text(0, shared);
  const std::vector<int32_t> rest = text(static_cast<int32_t>(1 + number % kTexts), blocks - shared);
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  return tokens;
}

double median_us(std::vector<int64_t>& samples_ns) {
  const auto middle = samples_ns.begin() + std::ssize(samples_ns) / 2;
  std::ranges::nth_element(samples_ns, middle);
  return static_cast<double>(*middle) * 1e-3;
}

/// The time of one part after another; parts in the order in which they are named.
template <size_t kParts>
class PartTimes final {
 public:
  explicit PartTimes(const std::array<const char*, kParts>& names) : names_(names) {}

  /// The request's first part begins.
  void start() {
    part_ = 0;
    last_ns_ = clock_.now_ns();
  }
  /// A part has ended, the next begins.
  void lap() {
    const int64_t now = clock_.now_ns();
    samples_[part_++].push_back(now - last_ns_);
    last_ns_ = now;
  }
  /// Medians of the parts, and of the sum of the parts from `thread_from` on.
  void report(benchmark::State& state, size_t thread_from) {
    std::vector<int64_t> sums(samples_[thread_from].size(), 0);
    for (size_t part = thread_from; part < kParts; ++part)
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += samples_[part][i];
    for (size_t part = 0; part < kParts; ++part) state.counters[names_[part]] = median_us(samples_[part]);
    state.counters["thread"] = median_us(sums);
  }

 private:
  SteadyClock clock_;
  std::array<const char*, kParts> names_;
  std::array<std::vector<int64_t>, kParts> samples_;
  size_t part_ = 0;
  int64_t last_ns_ = 0;
};

// As the engine sees it: every rank has a step that runs and one that is staged, the oldest ends, a request comes. Only
// `hash` is done on the caller's thread.
void request_by_call(benchmark::State& state) {
  const SteadyClock clock;
  Scheduler scheduler({.pool_blocks = std::vector<int32_t>(kRanks, kPoolBlocks)}, shape(), clock);
  const auto blocks = static_cast<int32_t>(state.range(0));
  const auto shared = static_cast<int32_t>(state.range(1));
  std::vector<int32_t> ranks(kRanks);
  std::iota(ranks.begin(), ranks.end(), 0);
  PartTimes<4> times({"1 hash", "2 submit", "3 finish_step", "4 next_steps"});
  std::deque<uint64_t> unfinished;
  int64_t number = 0;
  const auto end_oldest = [&] {
    scheduler.finish_step(unfinished.front(), StepOutcome::kDone);
    unfinished.pop_front();
  };
  const auto run = [&](auto&& lap) {
    ScheduleRequest request = request_of(static_cast<uint64_t>(number), tokens_of(number, blocks, shared));
    ++number;
    times.start();
    request.chain = BlockChain(kNamespace, request.tokens);
    lap();
    ZP_CHECK(scheduler.submit(std::move(request)) == SubmitResult::kAccepted, "request {} was refused", number - 1);
    lap();
    if (unfinished.size() == kStepsPerRank * kRanks) end_oldest();
    lap();
    std::vector<StepPlan> steps = scheduler.next_steps(ranks);
    // The first few rather wait for the rank that has what they share.
    for (; steps.empty(); steps = scheduler.next_steps(ranks)) end_oldest();
    lap();
    for (const StepPlan& step : steps) unfinished.push_back(step.id);
  };
  for (int32_t i = 0; i < warm_up(blocks); ++i) run([] {});
  for (auto _ : state) run([&] { times.lap(); });
  times.report(state, 1);
  state.counters["evicted"] = static_cast<double>(scheduler.stats().evictions) / static_cast<double>(number);
}
BENCHMARK(request_by_call)
    ->ArgNames({"blocks", "shared"})
    ->Args({125, 0})
    ->Args({250, 0})
    ->Args({500, 0})
    ->Args({1000, 0})
    ->Args({1000, 900})
    ->Unit(benchmark::kMicrosecond);

// What next_step() and finish_step() do with the index, one act after another, on one rank after another.
void request_by_part(benchmark::State& state) {
  const SchedulerConfig config{.pool_blocks = std::vector<int32_t>(kRanks, kPoolBlocks)};
  PrefixIndex index(config.pool_blocks);
  const CostModel cost(shape());
  const PrefixSaturationPolicy policy;
  const auto blocks = static_cast<int32_t>(state.range(0));
  const auto shared = static_cast<int32_t>(state.range(1));
  PartTimes<7> times({"1 acquire", "2 plan", "3 pin", "4 promise", "5 release", "6 commit", "7 unpin"});
  int64_t number = 0;
  const auto run = [&](auto&& lap) {
    QueuedRequest request;
    request.sequence = 1;
    request.request = request_of(1, tokens_of(number, blocks, shared));
    // One rank is open, and the others have long to do, so that all ranks come to be used.
    std::vector<RankView> ranks(kRanks, {.load_ahead = 1e9, .unfinished_step = 1});
    const auto rank = static_cast<int32_t>(number++ % kRanks);
    ranks[static_cast<size_t>(rank)] = {.open = true};
    times.start();
    request.path = index.acquire(
        {.cache_namespace = kNamespace, .tokens = request.request.tokens, .chain = &request.request.chain});
    lap();
    Waiting waiting = glance(request);
    update_match(waiting, index, open_ranks(ranks));
    const std::vector<const Waiting*> window = {&waiting};
    const BatchPlan plan = plan_batch({.window = window,
                                       .more_arrive = true,
                                       .index = &index,
                                       .ranks = ranks,
                                       .config = &config,
                                       .cost = &cost,
                                       .policy = &policy});
    lap();
    const PlannedSegment& segment = plan.steps.front().segments.front();
    const std::span<const NodeId> path = request.path;
    const auto pinned = static_cast<size_t>(index.pin(rank, path.first(segment.prefix.size())));
    lap();
    const auto made = path.subspan(pinned, static_cast<size_t>(segment.keep));
    benchmark::DoNotOptimize(index.promise(rank, made, false));
    lap();
    index.release(path);
    lap();
    for (const NodeId node : made) index.commit(rank, node);
    lap();
    index.unpin(rank, path.first(pinned + made.size()));
    lap();
  };
  for (int32_t i = 0; i < warm_up(blocks); ++i) run([] {});
  for (auto _ : state) run([&] { times.lap(); });
  times.report(state, 0);
}
BENCHMARK(request_by_part)
    ->ArgNames({"blocks", "shared"})
    ->Args({1000, 0})
    ->Args({1000, 900})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace zp
