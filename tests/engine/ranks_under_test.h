// Ranks of a checkpoint, without scheduler or tokenizer: a test gives each rank its steps.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "zp/base/bounded_queue.h"
#include "zp/base/clock.h"
#include "zp/engine/rank.h"
#include "zp/engine/rank_group.h"
#include "zp/engine/setup.h"

namespace zp::test {

/// Logits of every candidate of a step, and the log-sum-exp of each of its sequences, as bits.
inline std::vector<uint32_t> bits_of(const ForwardResult& result) {
  std::vector<uint32_t> bits;
  for (const float value : result.logits) bits.push_back(std::bit_cast<uint32_t>(value));
  for (const float value : result.log_sum_exp) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

/// A step of whole sequences, with the whole vocabulary as candidates of each.
inline ForwardStep step_of(std::span<const std::vector<int32_t>> sequences, int32_t vocabulary) {
  ForwardStep step;
  step.candidate_offsets.push_back(0);
  for (const std::vector<int32_t>& ids : sequences) {
    step.sequences.push_back({static_cast<int64_t>(step.ids.size()), static_cast<int32_t>(ids.size()), {}});
    for (size_t p = 0; p < ids.size(); ++p) {
      step.ids.push_back(ids[p]);
      step.positions.push_back(static_cast<int32_t>(p));
    }
    step.head_rows.push_back(static_cast<int64_t>(step.ids.size()) - 1);
    for (int32_t c = 0; c < vocabulary; ++c) step.candidates.push_back(c);
    step.candidate_offsets.push_back(static_cast<int64_t>(step.candidates.size()));
  }
  return step;
}

class RanksUnderTest final {
 public:
  /// `adjust` may change what make_setup() decided (links, poison).
  explicit RanksUnderTest(const EngineConfig& config, const std::function<void(EngineSetup&)>& adjust = {})
      : files_(config.model), setup_(adjusted(make_setup(config, files_), adjust)), group_(setup_, files_) {
    for (int32_t r = 0; r < config.ranks; ++r) {
      reports_.push_back(std::make_unique<BoundedQueue<StepReport>>(64));
      RankGroup::Loaded& loaded = group_.rank(r);
      ranks_.push_back(std::make_unique<Rank>(
          setup_.ranks[static_cast<size_t>(r)],
          Rank::Parts{.device = *loaded.device,
                      .ops = *loaded.ops,
                      .shape = files_.shape(),
                      .weights = loaded.weights,
                      .experts = group_.make_experts(r),
                      .spans = loaded.spans.get(),
                      .clock = clock_},
          [queue = reports_.back().get()](StepReport report) { (void)queue->push(std::move(report)); }));
    }
  }

  [[nodiscard]] const ModelShape& shape() const { return files_.shape(); }
  [[nodiscard]] const EngineSetup& setup() const { return setup_; }
  void start(int32_t rank, ForwardStep step) {
    ranks_.at(static_cast<size_t>(rank))->start({next_id_++, std::move(step)});
  }
  /// Waits for the rank's next report.
  StepReport report(int32_t rank) { return *reports_.at(static_cast<size_t>(rank))->pop(); }
  [[nodiscard]] bool has_report(int32_t rank) const { return reports_.at(static_cast<size_t>(rank))->size() > 0; }
  /// Runs one step on one rank.
  ForwardResult run(int32_t rank, ForwardStep step) {
    start(rank, std::move(step));
    StepReport done = report(rank);
    if (done.failure) std::rethrow_exception(done.failure);
    return std::move(done.result);
  }

 private:
  static EngineSetup adjusted(EngineSetup setup, const std::function<void(EngineSetup&)>& adjust) {
    if (adjust) adjust(setup);
    return setup;
  }

  SteadyClock clock_;
  ModelFiles files_;
  EngineSetup setup_;
  RankGroup group_;
  std::atomic<uint64_t> next_id_{1};
  std::vector<std::unique_ptr<BoundedQueue<StepReport>>> reports_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace zp::test
