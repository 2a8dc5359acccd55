// The loop over events, and sums.
#include "zp/simulate/simulator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "zp/base/check.h"

namespace zp {
namespace {

FleetSpec fleet_spec(const SimulationSpec& spec, const Workload& workload) {
  const double transfer_seconds = spec.step.streamed_layers > 0 ? spec.step.transfer_seconds : 0;
  FleetSpec fleet{.config = {.pool_blocks = std::vector<int32_t>(static_cast<size_t>(spec.ranks), spec.pool_blocks),
                             .load = layer_time_load(spec.step.rates, spec.target_seconds, transfer_seconds),
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
    problems.push_back(
        fmt::format("there is no policy '{}'; there are {}", spec.policy, fmt::join(policy_names(), ", ")));
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
  double latency = 0;
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
      latency += static_cast<double>(step.end_ns - workload.requests[segment.request - 1].arrival_ns) * kSeconds;
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
  report.latency_seconds_mean = latency / static_cast<double>(report.requests);
  ZP_CHECK(report.requests == std::ssize(workload.requests), "{} of {} requests were run", report.requests,
           workload.requests.size());
  return report;
}

}  // namespace zp
