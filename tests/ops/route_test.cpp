// Which experts are chosen, and their weights.
#include <algorithm>
#include <numeric>

#include "tests/ops/harness.h"

namespace zp::test {
namespace {

class Route : public OpsTest {};
ZP_FOR_ALL_IMPLEMENTATIONS(Route);

struct Routed {
  HostTensor ids;
  HostTensor weights;
};

Routed run_route(const Implementation& implementation, const HostTensor& logits, int64_t chosen, bool normalize) {
  Harness harness(implementation);
  Routed routed{HostTensor(DType::kI32, {logits.shape()[0], chosen}),
                HostTensor(DType::kF32, {logits.shape()[0], chosen})};
  harness.ops().route(
      harness.stream(),
      {.logits = logits.view(), .normalize = normalize, .ids = routed.ids.view(), .weights = routed.weights.view()});
  harness.finish();
  return routed;
}

std::vector<int32_t> ids_of(const Routed& routed) {
  const int32_t* ids = routed.ids.view().as<int32_t>();
  return {ids, ids + routed.ids.elements()};
}

HostTensor row_of(const std::vector<float>& logits) {
  HostTensor tensor(DType::kF32, {1, std::ssize(logits)});
  for (size_t i = 0; i < logits.size(); ++i) tensor.set(static_cast<int64_t>(i), logits[i]);
  return tensor;
}

// A probability is exp(l - top) / sum: the difference rounds once, which exp turns into |l - top| * u; exp is within
// 4u; the sum of E positive terms within (E + 4) * u plus what its largest terms are off by. Dividing by the chosen
// ones' sum doubles all that.
void expect_weights(const HostTensor& logits, const Routed& routed, bool normalize) {
  const int64_t experts = logits.shape()[1];
  const int64_t chosen = routed.ids.shape()[1];
  Expected expected;
  for (int64_t t = 0; t < logits.shape()[0]; ++t) {
    double top = logits.d(t * experts);
    for (int64_t e = 0; e < experts; ++e) top = std::max(top, logits.d(t * experts + e));
    double all = 0;
    for (int64_t e = 0; e < experts; ++e) all += std::exp(logits.d(t * experts + e) - top);
    const int32_t* ids = routed.ids.view().as<int32_t>() + t * chosen;
    double sum = 0;
    for (int64_t j = 0; j < chosen; ++j) sum += std::exp(logits.d(t * experts + ids[j]) - top) / all;
    for (int64_t j = 0; j < chosen; ++j) {
      const double difference = top - logits.d(t * experts + ids[j]);
      const double weight = std::exp(-difference) / all / (normalize ? sum : 1.0);
      const double relative = 2 * (static_cast<double>(experts) + 20 + 2 * difference) * kRoundF32;
      expected.add(weight, weight * relative + kTiny);
    }
  }
  expected.aggregate = 40 * kRoundF32;
  EXPECT_TRUE(matches(routed.weights.floats(), expected));
}

TEST_P(Route, ChoosesTheLargestLogitsInFallingOrder) {
  struct Sizes {
    int64_t experts;
    int64_t chosen;
  };
  uint64_t seed = 1;
  for (const Sizes& sizes : {Sizes{1, 1}, Sizes{4, 4}, Sizes{7, 3}, Sizes{16, 1}, Sizes{33, 8}, Sizes{128, 8}}) {
    for (const bool normalize : {false, true}) {
      Random random(seed++);
      SCOPED_TRACE(random.seed());
      const HostTensor logits = random.tensor(DType::kF32, {37, sizes.experts}, 2.0f);
      const Routed routed = run_route(GetParam(), logits, sizes.chosen, normalize);
      const std::vector<int32_t> ids = ids_of(routed);
      for (int64_t t = 0; t < 37; ++t) {
        std::vector<int32_t> order(static_cast<size_t>(sizes.experts));
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
          const float la = logits.at(t * sizes.experts + a);
          const float lb = logits.at(t * sizes.experts + b);
          return la != lb ? la > lb : a < b;
        });
        for (int64_t j = 0; j < sizes.chosen; ++j)
          ASSERT_EQ(ids[static_cast<size_t>(t * sizes.chosen + j)], order[static_cast<size_t>(j)]);
      }
      expect_weights(logits, routed, normalize);
      const Routed reference = run_route(reference_for(GetParam()), logits, sizes.chosen, normalize);
      EXPECT_EQ(ids, ids_of(reference));
    }
  }
}

TEST_P(Route, TiesGoToTheLowerId) {
  EXPECT_EQ(ids_of(run_route(GetParam(), row_of({1, 3, 3, 2, 3, 1}), 4, true)), (std::vector<int32_t>{1, 2, 4, 3}));
  EXPECT_EQ(ids_of(run_route(GetParam(), row_of({5, 5, 5, 5}), 2, false)), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(ids_of(run_route(GetParam(), row_of({-0.0f, 0.0f}), 2, false)), (std::vector<int32_t>{0, 1}));
}

TEST_P(Route, TellsApartLogitsThatRoundToOneProbability) {
  // Both probabilities are 2^-149 or 0 in f32, yet the second logit is larger.
  const Routed routed = run_route(GetParam(), row_of({-200.0f, -199.0f, 0.0f}), 2, false);
  EXPECT_EQ(ids_of(routed), (std::vector<int32_t>{2, 1}));
}

TEST_P(Route, EqualLogitsShareTheWeight) {
  const Routed routed = run_route(GetParam(), row_of({7, 7, 7, 7}), 2, false);
  EXPECT_FLOAT_EQ(routed.weights.at(0), 0.25f);
  EXPECT_FLOAT_EQ(routed.weights.at(1), 0.25f);
  EXPECT_FLOAT_EQ(run_route(GetParam(), row_of({7, 7, 7, 7}), 2, true).weights.at(1), 0.5f);
}

TEST_P(Route, NanStaysInItsRowAndIdsAreValid) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> bad = {
      {nan, nan, nan, nan, nan}, {1, nan, 2, nan, 0}, {inf, 1, inf, 2, 3}, {-inf, -inf, -inf, -inf, -inf}};
  HostTensor logits(DType::kF32, {5, 5});
  for (int64_t t = 0; t < 4; ++t)
    for (int64_t e = 0; e < 5; ++e) logits.set(t * 5 + e, bad[static_cast<size_t>(t)][static_cast<size_t>(e)]);
  for (int64_t e = 0; e < 5; ++e) logits.set(20 + e, static_cast<float>(e));
  const Routed routed = run_route(GetParam(), logits, 3, true);
  EXPECT_EQ(ids_of(routed), (std::vector<int32_t>{0, 1, 2, 2, 0, 4, 0, 2, 4, 0, 1, 2, 4, 3, 2}));
  for (int64_t i = 0; i < 12; ++i) EXPECT_TRUE(std::isnan(routed.weights.at(i))) << i;
  for (int64_t i = 12; i < 15; ++i) EXPECT_TRUE(std::isfinite(routed.weights.at(i))) << i;
}

// Ids are those of the table's row; weights are the softmax's, whatever order they fall in.
TEST_P(Route, TakesExpertsFromATable) {
  constexpr int64_t kTokens = 40;
  constexpr int64_t kRows = 7;
  Random random(9);
  SCOPED_TRACE(random.seed());
  const HostTensor logits = random.tensor(DType::kF32, {kTokens, 5}, 2.0f);
  HostTensor table(DType::kI32, {kRows, 2});
  for (int32_t row = 0; row < kRows; ++row)
    for (int32_t j = 0; j < 2; ++j) table.view().as<int32_t>()[row * 2 + j] = (row + 3 * j) % 5;
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < kTokens; ++t) {
    tokens.push_back(static_cast<int32_t>(random.integer(0, 9)));
    positions.push_back(static_cast<int32_t>(random.integer(0, 9)));
  }
  std::vector<bool> taken(kRows);
  for (const bool normalize : {false, true}) {
    Harness harness(GetParam());
    Routed routed{HostTensor(DType::kI32, {kTokens, 2}), HostTensor(DType::kF32, {kTokens, 2})};
    harness.ops().route(harness.stream(), {.logits = logits.view(),
                                           .normalize = normalize,
                                           .ids = routed.ids.view(),
                                           .weights = routed.weights.view(),
                                           .table = table.view(),
                                           .tokens = tokens,
                                           .positions = positions});
    harness.finish();
    const std::vector<int32_t> ids = ids_of(routed);
    for (size_t t = 0; t < kTokens; ++t) {
      const int64_t row = drawn_route(tokens[t], positions[t], kRows);
      taken[static_cast<size_t>(row)] = true;
      ASSERT_EQ(ids[2 * t], row % 5);
      ASSERT_EQ(ids[2 * t + 1], (row + 3) % 5);
    }
    expect_weights(logits, routed, normalize);
  }
  EXPECT_EQ(std::count(taken.begin(), taken.end(), true), kRows);
}

TEST_P(Route, NoTokens) {
  EXPECT_EQ(run_route(GetParam(), HostTensor(DType::kF32, {0, 4}), 2, true).ids.elements(), 0);
}

}  // namespace
}  // namespace zp::test
