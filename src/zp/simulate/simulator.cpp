// The loop over events, and sums.
#include "zp/simulate/simulator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "zp/base/check.h"
#include "zp/base/excerpt.h"
#include "zp/base/math.h"

namespace zp {
namespace {

FleetSpec fleet_spec(const SimulationSpec& spec, const Workload& workload) {
  const double transfer_seconds = spec.step.streamed_layers > 0 ? spec.step.transfer_seconds : 0;
  // No layer of a step takes less, however few its tokens.
  const double least_seconds = std::max(transfer_seconds, spec.step.expert_read_seconds);
  FleetSpec fleet{.config = {.pool_blocks = std::vector<int32_t>(static_cast<size_t>(spec.ranks), spec.pool_blocks),
                             .load = layer_time_load(spec.step.rates, spec.target_seconds, least_seconds),
                             .step_tokens_max = spec.step_tokens_max,
                             .max_request_tokens = std::max<int64_t>(workload.tokens_max(), 1),
                             .look_ahead = spec.look_ahead},
                  .shape = spec.shape,
                  .step = spec.step,
                  .policy = spec.policy};
  return fleet;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

constexpr double kSeconds = 1e-9;

LatencyReport latency_report(std::vector<int64_t> latencies_ns) {
  std::ranges::sort(latencies_ns);
  const auto count = std::ssize(latencies_ns);
  const auto within = [&](int64_t percent) {
    const int64_t rank = ceil_div<int64_t>(percent * count, 100);  // from 1
    return static_cast<double>(latencies_ns[static_cast<size_t>(rank - 1)]) * kSeconds;
  };
  double sum = 0;
  for (const int64_t latency : latencies_ns) sum += static_cast<double>(latency) * kSeconds;
  return {.mean = sum / static_cast<double>(count),
          .p50 = within(50),
          .p90 = within(90),
          .p99 = within(99),
          .max = within(100)};
}

}  // namespace

double SimulationReport::tokens_per_second() const noexcept {
  return share(static_cast<double>(prompt_tokens), makespan_seconds);
}
double SimulationReport::hit_rate() const noexcept {
  return share(static_cast<double>(hit_tokens), static_cast<double>(prompt_tokens));
}
double SimulationReport::hit_rate_bound() const noexcept {
  return share(static_cast<double>(reusable_tokens), static_cast<double>(prompt_tokens));
}
double SimulationReport::load_spread() const noexcept {
  double most = 0;
  double sum = 0;
  for (const RankReport& rank : ranks) {
    most = std::max(most, rank.compute_seconds);
    sum += rank.compute_seconds;
  }
  return share(most * static_cast<double>(ranks.size()), sum);
}
double SimulationReport::exposed_share() const noexcept {
  double sum = 0;
  for (const RankReport& rank : ranks) sum += rank.exposed_seconds;
  return share(sum, makespan_seconds * static_cast<double>(ranks.size()));
}
double SimulationReport::idle_share() const noexcept {
  double sum = 0;
  for (const RankReport& rank : ranks) sum += rank.idle_seconds;
  return share(sum, makespan_seconds * static_cast<double>(ranks.size()));
}

std::vector<std::string> validate(const SimulationSpec& spec) {
  std::vector<std::string> problems = validate(spec.shape);
  if (make_policy(spec.policy) == nullptr)
    problems.push_back(fmt::format("there is no policy {}; there are {}", quote_excerpt(spec.policy),
                                   fmt::join(policy_names(), ", ")));
  if (spec.ranks < 1 || spec.ranks > kMaxRanks)
    problems.push_back(fmt::format("ranks is {}; it must lie in [1, {}]", spec.ranks, kMaxRanks));
  if (spec.pool_blocks < 0)
    problems.push_back(fmt::format("pool_blocks is {}; it must not be negative", spec.pool_blocks));
  if (!(spec.target_seconds > 0))
    problems.push_back(fmt::format("target_seconds is {}; it must be positive", spec.target_seconds));
  if (spec.step_tokens_max < 1)
    problems.push_back(fmt::format("step_tokens_max is {}; it must be at least 1", spec.step_tokens_max));
  if (spec.look_ahead < 1) problems.push_back(fmt::format("look_ahead is {}; it must be at least 1", spec.look_ahead));
  const OperationRates& rates = spec.step.rates;
  if (!(rates.attention > 0 && rates.dense > 0 && rates.expert > 0))
    problems.emplace_back("the rates must be positive");
  return problems;
}

SimulationReport simulate(const SimulationSpec& spec, const Workload& workload) {
  ZP_CHECK(validate(spec).empty() && !workload.requests.empty(), "{} requests; {}", workload.requests.size(),
           fmt::join(validate(spec), "; "));
  Fleet fleet(fleet_spec(spec, workload), workload);
  SimulationReport report;
  report.ranks.resize(static_cast<size_t>(spec.ranks));
  int64_t end_ns = 0;
  std::vector<int64_t> latencies_ns;
  latencies_ns.reserve(workload.requests.size());
  const auto count = [&](const FleetStep& step) {
    RankReport& rank = report.ranks[static_cast<size_t>(step.plan.rank)];
    ++rank.steps;
    rank.requests += static_cast<int64_t>(step.plan.segments.size());
    rank.computed_tokens += step.plan.tokens;
    rank.hit_tokens += step.plan.hit_tokens;
    rank.compute_seconds += static_cast<double>(step.time.compute_ns) * kSeconds;
    rank.exposed_seconds += static_cast<double>(step.time.exposed_ns) * kSeconds;
    ++report.filled_by[static_cast<size_t>(step.plan.filled_by)];
    for (const Segment& segment : step.plan.segments)
      latencies_ns.push_back(step.end_ns - workload.requests[segment.request - 1].arrival_ns);
    report.steps.push_back({.rank = step.plan.rank,
                            .start_ns = step.start_ns,
                            .end_ns = step.end_ns,
                            .exposed_ns = step.time.exposed_ns,
                            .tokens = step.plan.tokens});
    end_ns = std::max(end_ns, step.end_ns);
  };
  for (fleet.plan(); const std::optional<int64_t> next = fleet.next_event_ns(); fleet.plan())
    fleet.advance_to(*next, count);

  report.makespan_seconds = static_cast<double>(end_ns) * kSeconds;
  report.prompt_tokens = workload.tokens();
  report.reusable_tokens = reusable_tokens(workload);
  report.evictions = fleet.evictions();
  for (RankReport& rank : report.ranks) {
    report.requests += rank.requests;
    report.computed_tokens += rank.computed_tokens;
    report.hit_tokens += rank.hit_tokens;
    rank.idle_seconds = std::max(0.0, report.makespan_seconds - rank.compute_seconds - rank.exposed_seconds);
  }
  ZP_CHECK(report.requests == std::ssize(workload.requests), "{} of {} requests were run", report.requests,
           workload.requests.size());
  report.latency_seconds = latency_report(std::move(latencies_ns));
  return report;
}

}  // namespace zp
