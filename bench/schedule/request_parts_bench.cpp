// What each part of a request costs, from its tokens to its end: 8 ranks with full pools, requests of 1,000 blocks
// (16,000 tokens) whose first blocks are shared by all. Counters are medians over the requests of a run, in
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
constexpr int32_t kBlocks = 1000;
constexpr int32_t kPoolBlocks = 20'000;
// Until all pools are full.
constexpr int32_t kWarmUp = 2 * kRanks * kPoolBlocks / kBlocks;
constexpr int32_t kTexts = 20'000;  // a text comes again when its blocks are long gone

using bench::kNamespace;
using bench::request_of;
using bench::shape;
using bench::text;

std::vector<int32_t> tokens_of(int64_t number, int32_t shared) {
  std::vector<int32_t> tokens = text(0, shared);
  const std::vector<int32_t> rest = text(static_cast<int32_t>(1 + number % kTexts), kBlocks - shared);
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

// As the engine sees it: every rank has a step that runs, the oldest ends, a request comes. Only `hash` is done on the
// caller's thread.
void request_by_call(benchmark::State& state) {
  const SteadyClock clock;
  Scheduler scheduler({.pool_blocks = std::vector<int32_t>(kRanks, kPoolBlocks)}, shape(), clock);
  const auto shared = static_cast<int32_t>(state.range(0));
  std::vector<int32_t> ranks(kRanks);
  std::iota(ranks.begin(), ranks.end(), 0);
  PartTimes<4> times({"1 hash", "2 submit", "3 next_steps", "4 finish_step"});
  std::deque<uint64_t> running;
  int64_t number = 0;
  const auto run = [&](auto&& lap) {
    ScheduleRequest request = request_of(static_cast<uint64_t>(number), tokens_of(number, shared));
    ++number;
    times.start();
    request.chain = BlockChain(kNamespace, request.tokens);
    lap();
    ZP_CHECK(scheduler.submit(std::move(request)) == SubmitResult::kAccepted, "request {} was refused", number - 1);
    lap();
    const std::vector<StepPlan> steps = scheduler.next_steps(ranks);
    lap();
    ZP_CHECK(steps.size() == 1, "a request is in {} steps", steps.size());
    running.push_back(steps.front().id);
    if (running.size() <= kRanks) return;
    scheduler.finish_step(running.front(), StepOutcome::kDone);
    lap();
    running.pop_front();
  };
  for (int32_t i = 0; i < kWarmUp; ++i) run([] {});
  for (auto _ : state) run([&] { times.lap(); });
  times.report(state, 1);
  state.counters["evicted"] = static_cast<double>(scheduler.stats().evictions) / static_cast<double>(number);
}
BENCHMARK(request_by_call)->ArgName("shared")->Arg(0)->Arg(900)->Unit(benchmark::kMicrosecond);

// What next_step() and finish_step() do with the index, one act after another, on one rank after another.
void request_by_part(benchmark::State& state) {
  const SchedulerConfig config{.pool_blocks = std::vector<int32_t>(kRanks, kPoolBlocks)};
  PrefixIndex index(config.pool_blocks);
  const CostModel cost(shape());
  const PrefixSaturationPolicy policy;
  const auto shared = static_cast<int32_t>(state.range(0));
  PartTimes<7> times({"1 acquire", "2 plan", "3 pin", "4 promise", "5 release", "6 commit", "7 unpin"});
  int64_t number = 0;
  const auto run = [&](auto&& lap) {
    QueuedRequest request;
    request.sequence = 1;
    request.request = request_of(1, tokens_of(number, shared));
    // One rank is open, so that all ranks come to be used.
    std::vector<RankView> ranks(kRanks);
    const auto rank = static_cast<int32_t>(number++ % kRanks);
    ranks[static_cast<size_t>(rank)].open = true;
    times.start();
    request.path = index.acquire(
        {.cache_namespace = kNamespace, .tokens = request.request.tokens, .chain = &request.request.chain});
    lap();
    const std::vector<const QueuedRequest*> window = {&request};
    const BatchPlan plan = plan_batch(
        {.window = window, .index = &index, .ranks = ranks, .config = &config, .cost = &cost, .policy = &policy});
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
  for (int32_t i = 0; i < kWarmUp; ++i) run([] {});
  for (auto _ : state) run([&] { times.lap(); });
  times.report(state, 0);
}
BENCHMARK(request_by_part)->ArgName("shared")->Arg(0)->Arg(900)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace zp
