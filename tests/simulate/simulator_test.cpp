// Simulations against schedules worked out by hand, and facts that hold for every policy.
#include "zp/simulate/simulator.h"

#include <gtest/gtest.h>

#include "tests/simulate/simulation_under_test.h"

namespace zp {
namespace {

using test::grouped;
using test::simulation;

Workload independent(std::initializer_list<int32_t> lengths) {
  Workload w{.name = "independent", .parts = {"all"}, .requests = {}};
  uint64_t text = 1;
  for (const int32_t length : lengths)
    w.requests.push_back({.pieces = {{.text = text++, .offset = 0, .count = length}}});
  return w;
}

// Steps of 100 tokens, then of 60: 2 layers of 1 microsecond a token. (Three fifths more do not fit into one step.)
TEST(Simulator, AddsUpStepsOfOneRank) {
  SimulationSpec spec = simulation(1, 100);
  spec.step_tokens_max = 110;
  const SimulationReport r = simulate(spec, independent({40, 60, 30, 30}));
  EXPECT_EQ(r.requests, 4);
  EXPECT_EQ(r.computed_tokens, 160);
  EXPECT_EQ(r.hit_tokens, 0);
  ASSERT_EQ(r.steps.size(), 2U);
  EXPECT_EQ(r.steps[0].tokens, 100);
  EXPECT_NEAR(r.makespan_seconds, 320e-6, 1e-9);
  EXPECT_NEAR(r.tokens_per_second(), 500'000, 1);
  EXPECT_NEAR(r.latency_seconds.mean, (2 * 200e-6 + 2 * 320e-6) / 4, 1e-9);
  EXPECT_EQ(r.ranks[0].idle_seconds, 0);
}

// A step of 100 tokens takes 200 us, the experts of its one streamed layer 450. The first two find them in the slots.
// The third gather begins when the first step ends, at 200 us: the third step, which gets there at 550, waits until
// 650.
TEST(Simulator, CountsExposedTime) {
  SimulationSpec spec = simulation(1, 100);
  spec.step.transfer_seconds = 450e-6;
  const SimulationReport r = simulate(spec, independent({100, 100, 100}));
  EXPECT_NEAR(r.ranks[0].compute_seconds, 600e-6, 1e-9);
  constexpr double kWaited = 100e-6;
  EXPECT_NEAR(r.ranks[0].exposed_seconds, kWaited, 1e-9);
  EXPECT_NEAR(r.makespan_seconds, 600e-6 + kWaited, 1e-9);
  EXPECT_NEAR(r.exposed_share(), kWaited / (600e-6 + kWaited), 1e-6);
}

// Two ranks, three steps: one rank has two of them.
TEST(Simulator, SaysHowUnevenTheLoadIs) {
  const SimulationReport r = simulate(simulation(2, 100), independent({100, 100, 100}));
  EXPECT_NEAR(r.makespan_seconds, 400e-6, 1e-9);
  EXPECT_NEAR(r.load_spread(), 2.0 / 1.5, 1e-9);
  EXPECT_NEAR(r.idle_share(), 0.25, 1e-6);
}

TEST(Simulator, RequestsWaitUntilTheyArrive) {
  Workload w = independent({50, 50});
  w.requests[1].arrival_ns = 1'000'000;
  const SimulationReport r = simulate(simulation(1, 100), w);
  ASSERT_EQ(r.steps.size(), 2U);
  EXPECT_EQ(r.steps[0].end_ns, 100'000);
  EXPECT_EQ(r.steps[1].start_ns, 1'000'000);
  EXPECT_NEAR(r.ranks[0].idle_seconds, 900e-6, 1e-9);
  EXPECT_NEAR(r.latency_seconds.mean, 100e-6, 1e-9);
}

// 200 requests, each a step of 200 us. The first 150 come every 100 us, so number i waits for the i before it: it takes
// 200 + 100 i. The others come when nothing else is left, a millisecond apart, and take 200. In order these are 200,
// 51 times, then 300, 400, ... 15,100: number i of the first is the (51 + i)th.
TEST(Simulator, SaysWithinWhichTimeMostRequestsAreDone) {
  Workload w = independent({});
  for (int32_t i = 0; i < 200; ++i)
    w.requests.push_back({.pieces = {{.text = static_cast<uint64_t>(i), .offset = 0, .count = 100}},
                          .arrival_ns = i < 150 ? i * 100'000 : (i - 150) * 1'000'000 + 100'000'000});
  const SimulationReport r = simulate(simulation(1, 100), w);
  ASSERT_EQ(r.steps.size(), 200U);
  EXPECT_NEAR(r.latency_seconds.p50, 5'100e-6, 1e-9);   // the 100th: i = 49
  EXPECT_NEAR(r.latency_seconds.p90, 13'100e-6, 1e-9);  // the 180th: i = 129
  EXPECT_NEAR(r.latency_seconds.p99, 14'900e-6, 1e-9);  // the 198th: i = 147
  EXPECT_NEAR(r.latency_seconds.max, 15'100e-6, 1e-9);  // i = 149
  EXPECT_NEAR(r.latency_seconds.mean, (200 * 200e-6 + 150 * 149 * 50e-6) / 200, 1e-9);
}

// Nearest rank: of three, the second is the median and the third is all else.
TEST(Simulator, PercentilesOfFewRequestsAreLatenciesOfRequests) {
  const SimulationReport r = simulate(simulation(1, 100), independent({100, 100, 100}));
  EXPECT_NEAR(r.latency_seconds.p50, 400e-6, 1e-9);
  for (const double latency : {r.latency_seconds.p90, r.latency_seconds.p99, r.latency_seconds.max})
    EXPECT_NEAR(latency, 600e-6, 1e-9);
}

// Ten requests that share a long prefix and come at once: one prefix and ten suffixes, on one rank.
TEST(Simulator, TenThatShareAPrefixCostItOnce) {
  const SimulationReport r = simulate(simulation(4, 10'000), grouped(1, 10, 4096, 32));
  EXPECT_EQ(r.computed_tokens, 4096 + 10 * 32);
  EXPECT_EQ(r.hit_tokens, 9 * 4096);
  EXPECT_EQ(r.hit_tokens, r.reusable_tokens);
  int busy = 0;
  for (const RankReport& rank : r.ranks) busy += rank.requests > 0 ? 1 : 0;
  EXPECT_EQ(busy, 1);
}

// As many requests as ranks, whose own parts are twice the prefix that they share: each rank makes the prefix once more
// rather than have one do everything, though the target would hold it all.
TEST(Simulator, RequestsThatShareAPrefixAreDividedAmongIdleRanks) {
  const SimulationReport r = simulate(simulation(8, 100'000), grouped(1, 8, 1024, 2000));
  for (const RankReport& rank : r.ranks) EXPECT_EQ(rank.requests, 1);
}

// Dealt out in turn, every one of 4 ranks computes every prefix.
TEST(Simulator, RoundRobinComputesPrefixesOnEveryRank) {
  SimulationSpec spec = simulation(4, 1000);
  spec.policy = "round-robin";
  const SimulationReport r = simulate(spec, grouped(3, 8, 160, 16));
  EXPECT_EQ(r.computed_tokens, 3 * (4 * 160 + 8 * 16));
  for (const RankReport& rank : r.ranks) EXPECT_EQ(rank.requests, 6);
}

// 2,100 tokens for 7 ranks whose steps are full with 100: three rounds for each. 2,400 tokens are 3.4 rounds: the last
// two are one of 143 each, up to a request, rather than one of 100 and one of 100 for three ranks.
TEST(Simulator, TheLastStepsAreEven) {
  for (const int32_t requests : {210, 240}) {
    Workload w{.name = "short", .parts = {"all"}, .requests = {}};
    for (int32_t i = 0; i < requests; ++i)
      w.requests.push_back({.pieces = {{.text = static_cast<uint64_t>(i), .offset = 0, .count = 10}}});
    const SimulationReport r = simulate(simulation(7, 100), w);
    EXPECT_LE(r.makespan_seconds, (requests * 10.0 / 7 + 10) * 2e-6);
    EXPECT_EQ(r.steps.size(), 21U);
  }
}

Workload of_lengths(const std::vector<int32_t>& lengths) {
  Workload w{.name = "alone", .parts = {"all"}, .requests = {}};
  for (size_t i = 0; i < lengths.size(); ++i)
    w.requests.push_back({.pieces = {{.text = i, .offset = 0, .count = lengths[i]}}});
  return w;
}

// 17 for 8 ranks, each shorter than a transfer takes: the last goes along, rather than be a step of its own.
TEST(Simulator, ARemainderOfEqualRequestsIsNoStepOfItsOwn) {
  SimulationSpec spec = simulation(8, 1000);
  spec.step.transfer_seconds = 0.5 * spec.target_seconds;
  const SimulationReport r = simulate(spec, of_lengths(std::vector<int32_t>(17, 250)));
  EXPECT_EQ(r.steps.size(), 8U);
}

class EveryPolicy : public testing::TestWithParam<std::string_view> {};

TEST_P(EveryPolicy, RunsEverythingOnceAndStaysBelowTheBounds) {
  for (const int32_t ranks : {1, 3, 8}) {
    SimulationSpec spec = simulation(ranks, 500);
    spec.policy = GetParam();
    spec.pool_blocks = 200;
    spec.look_ahead = 50;
    Workload w = grouped(40, 12, 96, 40);
    shuffle(w, 7);
    const SimulationReport r = simulate(spec, w);
    EXPECT_EQ(r.requests, 480);
    EXPECT_EQ(r.computed_tokens + r.hit_tokens, w.tokens());
    EXPECT_LE(r.hit_tokens, r.reusable_tokens);
    int64_t requests = 0;
    double busy = 0;
    for (const RankReport& rank : r.ranks) {
      requests += rank.requests;
      busy += rank.compute_seconds;
      EXPECT_NEAR(rank.compute_seconds + rank.exposed_seconds + rank.idle_seconds, r.makespan_seconds, 1e-9);
    }
    EXPECT_EQ(requests, 480);
    // Every token takes 2 microseconds, whoever computes it.
    EXPECT_NEAR(busy, static_cast<double>(r.computed_tokens) * 2e-6, 1e-6);
    EXPECT_GE(r.makespan_seconds * ranks, busy - 1e-9);
  }
}

TEST_P(EveryPolicy, GivesTheSameTwice) {
  SimulationSpec spec = simulation(4, 300);
  spec.policy = GetParam();
  spec.pool_blocks = 100;
  Workload w = grouped(30, 9, 80, 50);
  shuffle(w, 11);
  const SimulationReport a = simulate(spec, w);
  const SimulationReport b = simulate(spec, w);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].rank, b.steps[i].rank);
    EXPECT_EQ(a.steps[i].end_ns, b.steps[i].end_ns);
    EXPECT_EQ(a.steps[i].tokens, b.steps[i].tokens);
  }
}

TEST_P(EveryPolicy, StepsOfARankFollowEachOther) {
  SimulationSpec spec = simulation(3, 200);
  spec.policy = GetParam();
  const SimulationReport r = simulate(spec, grouped(10, 10, 64, 30));
  std::vector<int64_t> end(3, 0);
  for (const StepRecord& step : r.steps) {
    EXPECT_GE(step.start_ns, end[static_cast<size_t>(step.rank)]);
    EXPECT_GT(step.end_ns, step.start_ns);
    end[static_cast<size_t>(step.rank)] = step.end_ns;
  }
}

INSTANTIATE_TEST_SUITE_P(Simulator, EveryPolicy, testing::ValuesIn(policy_names().begin(), policy_names().end()),
                         [](const auto& test_case) {
                           std::string name(test_case.param);
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST(Simulator, SpreadsOverManyRanks) {
  Workload w = grouped(300, 1, 100, 100);
  const SimulationReport r = simulate(simulation(100, 200), w);
  EXPECT_EQ(r.requests, 300);
  for (const RankReport& rank : r.ranks) EXPECT_EQ(rank.requests, 3);
  EXPECT_NEAR(r.makespan_seconds, 3 * 400e-6, 1e-9);
  EXPECT_NEAR(r.load_spread(), 1, 1e-9);
}

TEST(Simulator, ValidationNamesEveryProblem) {
  SimulationSpec spec = simulation(0, 100);
  spec.policy = "best";
  spec.pool_blocks = -1;
  spec.target_seconds = 0;
  spec.step_tokens_max = 0;
  spec.look_ahead = 0;
  spec.step.rates.dense = 0;
  EXPECT_EQ(validate(spec).size(), 7U);
  EXPECT_TRUE(validate(simulation(1, 100)).empty());
}

}  // namespace
}  // namespace zp
