// Small random workloads in which few requests are a good part of all the work, against bounds counted from them and
// against the other policies.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/simulate/simulation_under_test.h"

namespace zp {
namespace {

using test::simulation;

constexpr int32_t kTarget = 1000;
constexpr double kTokenSeconds = 2e-6;

struct Small {
  int32_t ranks = 1;
  double transfer_share = 0;  ///< of the target
  Workload workload{.name = "small", .parts = {"all"}, .requests = {}};
};

/// Up to 2 long requests a rank, each a document or the same document with questions, among short ones that may share
/// prefixes too; from half a step a rank to eight. Long ones come first, last, or anywhere.
Small small_workload(uint32_t seed, bool sharing) {
  std::mt19937 random(seed);
  const auto draw = [&](int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random() % static_cast<uint32_t>(high - low + 1));
  };
  Small small{.ranks = draw(1, 8), .transfer_share = draw(0, 2) * 0.4};
  std::vector<WorkRequest>& requests = small.workload.requests;
  uint64_t text = 0;
  int64_t left = int64_t{small.ranks} * draw(kTarget / 2, 8 * kTarget);
  const auto add_group = [&](int32_t prefix, int32_t questions, int32_t own_max) {
    const uint64_t shared = ++text;
    left -= prefix;
    for (int32_t i = 0; i < questions; ++i) {
      const int32_t own = draw(1, own_max);
      requests.push_back(
          {.pieces = {{.text = shared, .offset = 0, .count = prefix}, {.text = ++text, .offset = 0, .count = own}}});
      left -= own;
    }
  };
  for (int32_t longs = draw(0, 2 * small.ranks); longs > 0 && left > 0; --longs)
    add_group(draw(kTarget, 6 * kTarget), sharing ? draw(1, 8) : 1, 20);
  const size_t long_count = requests.size();
  while (left > 0) add_group(draw(1, 160), sharing ? draw(1, 12) : 1, 100);
  const int32_t order = draw(0, 2);
  if (order == 0)
    std::rotate(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(long_count), requests.end());
  if (order == 1) shuffle(small.workload, seed);
  return small;
}

/// No schedule is faster: all tokens once (every block of a shared text once) spread evenly, or the longest request.
double bound_seconds(const Small& small) {
  std::set<std::pair<uint64_t, int32_t>> blocks;  // of the first text of each request, which alone may be shared
  int64_t once = 0;
  int64_t longest = 0;
  for (const WorkRequest& request : small.workload.requests) {
    longest = std::max(longest, request.tokens());
    const int32_t whole = request.pieces[0].count / kBlockTokens;
    once += request.tokens() - int64_t{whole} * kBlockTokens;
    for (int32_t i = 0; i < whole; ++i)
      if (blocks.emplace(request.pieces[0].text, i).second) once += kBlockTokens;
  }
  const double even = static_cast<double>(once) / small.ranks;
  return std::max(even, static_cast<double>(longest)) * kTokenSeconds;
}

double makespan(const Small& small, std::string_view policy) {
  SimulationSpec spec = simulation(small.ranks, kTarget);
  spec.policy = policy;
  spec.pool_blocks = 1 << 16;
  spec.step.transfer_seconds = small.transfer_share * spec.target_seconds;
  return simulate(spec, small.workload).makespan_seconds;
}

// Every second one shares. Ours was at most 1.5 % behind when this was written; where long requests do not come first,
// 7 are over 3 % behind, one of them 31 %.
TEST(SmallWorkloads, TakeHardlyLongerThanUnderAnyOtherPolicy) {
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    const bool sharing = seed % 2 == 0;
    SCOPED_TRACE(testing::Message() << "seed " << seed << (sharing ? ", sharing" : ""));
    const Small small = small_workload(seed, sharing);
    const double ours = makespan(small, "prefix-saturation");
    EXPECT_GE(ours, bound_seconds(small) * (1 - 1e-9));
    for (const std::string_view policy : policy_names()) EXPECT_LE(ours, 1.03 * makespan(small, policy)) << policy;
  }
}

// Where nothing is shared and no transfer has to be hidden, requests are jobs on identical machines: the longest first
// takes at most 4/3 of the best schedule (Graham, 1969), whatever the best is. The bound counted here may lie below it.
TEST(SmallWorkloads, TakeAtMostAThirdLongerThanTheBoundWhereNothingIsShared) {
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Small small = small_workload(seed, false);
    small.transfer_share = 0;
    EXPECT_LE(makespan(small, "prefix-saturation"), 4.0 / 3 * bound_seconds(small));
  }
}

}  // namespace
}  // namespace zp
