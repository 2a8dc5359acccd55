// Ranks of a model that are given whole steps, each by a thread of its own: what is measured without scheduler,
// tokenizer and caches.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "bench/result_lines.h"
#include "zp/base/bounded_queue.h"
#include "zp/base/clock.h"
#include "zp/engine/rank.h"
#include "zp/engine/rank_group.h"
#include "zp/engine/setup.h"

namespace zp::bench {

/// Of the bits of a step's results.
[[nodiscard]] inline uint64_t hash_of(const ForwardResult& result) noexcept {
  OutputHash hash;
  hash.add(std::span(result.logits));
  hash.add(std::span(result.log_sum_exp));
  return hash.value();
}

/// Loads once; ranks are made as often as something about them changes. Used by one thread.
class DrivenRanks final {
 public:
  /// `source` outlives it. Throws as make_setup() and RankGroup do. There are no ranks before make().
  DrivenRanks(const EngineConfig& config, const WeightSource& source)
      : shape_(source.shape()), setup_(make_setup(config, source)), begin_ns_(clock_.now_ns()), group_(setup_, source) {
    load_seconds_ = static_cast<double>(clock_.now_ns() - begin_ns_) * 1e-9;
  }

  /// Makes ranks anew, as setup() and group() are now.
  void make() {
    ranks_.clear();
    reports_.clear();
    for (int32_t r = 0; r < group_.size(); ++r) {
      reports_.push_back(std::make_unique<BoundedQueue<StepReport>>(64));
      RankGroup::Loaded& loaded = group_.rank(r);
      ranks_.push_back(std::make_unique<Rank>(
          setup_.ranks[static_cast<size_t>(r)],
          Rank::Parts{.device = *loaded.device,
                      .ops = *loaded.ops,
                      .shape = shape_,
                      .weights = loaded.weights,
                      .experts = group_.make_experts(r),
                      .spans = nullptr,
                      .clock = clock_},
          [queue = reports_.back().get()](StepReport report) { (void)queue->push(std::move(report)); }));
    }
  }

  /// The step that a rank runs as its `index`th.
  using StepOf = std::function<ForwardStep(int32_t rank, int32_t index)>;
  /// Runs `count` steps on every rank at once, each with the next one staged. Gives all reports, by rank; throws the
  /// first failure once all have ended.
  [[nodiscard]] std::vector<std::vector<StepReport>> run(int32_t count, const StepOf& step_of) {
    std::vector<std::vector<StepReport>> by_rank(ranks_.size());
    std::vector<std::thread> drivers;
    for (size_t r = 0; r < ranks_.size(); ++r)
      drivers.emplace_back([&, r] {
        const auto rank = static_cast<int32_t>(r);
        ranks_[r]->start({0, step_of(rank, 0)});
        for (int32_t i = 0; i < count; ++i) {
          if (i + 1 < count) ranks_[r]->start({0, step_of(rank, i + 1)});
          by_rank[r].push_back(*reports_[r]->pop());
        }
      });
    for (std::thread& driver : drivers) driver.join();
    for (const std::vector<StepReport>& reports : by_rank)
      for (const StepReport& report : reports)
        if (report.failure) std::rethrow_exception(report.failure);
    return by_rank;
  }

  /// Runs one step on rank 0 alone; throws its failure.
  [[nodiscard]] StepReport run_alone(const ForwardStep& step) {
    ranks_.front()->start({0, step});
    StepReport report = *reports_.front()->pop();
    if (report.failure) std::rethrow_exception(report.failure);
    return report;
  }

  [[nodiscard]] EngineSetup& setup() noexcept { return setup_; }
  [[nodiscard]] const EngineSetup& setup() const noexcept { return setup_; }
  [[nodiscard]] RankGroup& group() noexcept { return group_; }
  [[nodiscard]] const ModelShape& shape() const noexcept { return shape_; }
  [[nodiscard]] StepRunner::Description description() const { return ranks_.front()->description(); }
  [[nodiscard]] double load_seconds() const noexcept { return load_seconds_; }

 private:
  SteadyClock clock_;
  const ModelShape& shape_;
  EngineSetup setup_;
  int64_t begin_ns_;
  RankGroup group_;
  double load_seconds_ = 0;
  std::vector<std::unique_ptr<BoundedQueue<StepReport>>> reports_;  // [ranks]
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace zp::bench
