// Drives ranks with whole steps.
#include "bench/model/bench_ranks.h"

#include <algorithm>
#include <random>

namespace zp::bench {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

ForwardStep make_step(const StepShape& shape, int32_t vocabulary, uint64_t seed) {
  std::mt19937_64 engine(seed);
  ForwardStep step;
  step.candidate_offsets.push_back(0);
  for (int64_t r = 0; r < shape.requests; ++r) {
    step.sequences.push_back({.row = std::ssize(step.ids), .tokens = static_cast<int32_t>(shape.tokens), .prefix = {}});
    for (int32_t p = 0; p < shape.tokens; ++p) {
      step.ids.push_back(static_cast<int32_t>(engine() % static_cast<uint64_t>(vocabulary)));
      step.positions.push_back(p);
    }
    step.head_rows.push_back(std::ssize(step.ids) - 1);
    step.candidates.insert(step.candidates.end(), {0, vocabulary - 1});
    step.candidate_offsets.push_back(std::ssize(step.candidates));
  }
  return step;
}

BenchRanks::BenchRanks(const EngineConfig& config, const WeightSource& source) : ranks_(config, source) {
  for (int32_t r = 0; r < ranks_.group().size(); ++r) {
    RankGroup::Loaded& loaded = ranks_.group().rank(r);
    auto timed = std::make_unique<TimedOps>(std::move(loaded.ops), ranks_.shape());
    timed_.push_back(timed.get());
    loaded.ops = std::move(timed);
  }
}

void BenchRanks::use(StepMode mode) {
  ranks_.setup().step_modes.fixed = mode;
  ranks_.make();
}

Measured BenchRanks::run(const ForwardStep& step, int32_t warm_up, int32_t steps) {
  const auto by_rank = ranks_.run(warm_up + steps, [&](int32_t /*rank*/, int32_t /*index*/) { return step; });
  Measured measured;
  std::vector<double> seconds;
  std::vector<double> exposed;
  bool first = true;
  for (const std::vector<StepReport>& reports : by_rank)
    for (size_t i = 0; i < reports.size(); ++i) {
      const StepReport& report = reports[i];
      const uint64_t hash = hash_of(report.result);
      if (!first && hash != measured.output_hash) measured.repeatable = false;
      measured.output_hash = hash;
      first = false;
      measured.mode = report.mode;
      if (i < static_cast<size_t>(warm_up)) continue;
      seconds.push_back(report.seconds);
      double waited = 0;
      for (const LayerWait& wait : report.waits) waited += static_cast<double>(wait.exposed_ns) * 1e-9;
      exposed.push_back(waited);
    }
  measured.steps = steps;
  measured.seconds = median(seconds);
  measured.seconds_min = std::ranges::min(seconds);
  measured.seconds_max = std::ranges::max(seconds);
  measured.exposed_seconds = median(exposed);
  return measured;
}

PassTotals BenchRanks::profile(const ForwardStep& step) {
  timed_.front()->start();  // the rank is idle, and sees it with the step
  (void)ranks_.run_alone(step);
  return timed_.front()->stop();
}

uint64_t BenchRanks::device_bytes_used() {
  const MemoryInfo info = ranks_.group().rank(0).device->memory_info();
  return info.total_bytes - info.free_bytes;
}

}  // namespace zp::bench
