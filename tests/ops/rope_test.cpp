// The split of the fused projection, head norms, rotation.
#include "tests/ops/harness.h"

namespace zp::test {
namespace {

class Rope : public OpsTest {};
ZP_FOR_ALL_IMPLEMENTATIONS(Rope);

struct Case {
  int64_t q_heads;
  int64_t kv_heads;
  int64_t head_dim;
  bool norm;
};

struct Inputs {
  HostTensor qkv;
  std::vector<int32_t> positions;
  HostTensor frequencies;
  HostTensor q_norm;
  HostTensor k_norm;
  float eps = 1e-6f;
};

struct Outputs {
  HostTensor q;
  HostTensor k;
  HostTensor v;
};

Inputs make_inputs(const Case& c, int64_t tokens, Random& random, DType type = DType::kF32) {
  Inputs inputs;
  inputs.qkv = random.tensor(type, {tokens, (c.q_heads + 2 * c.kv_heads) * c.head_dim});
  for (int64_t t = 0; t < tokens; ++t) inputs.positions.push_back(static_cast<int32_t>(random.integer(0, 40000)));
  inputs.frequencies = HostTensor(DType::kF32, {c.head_dim / 2});
  for (int64_t i = 0; i < c.head_dim / 2; ++i)
    inputs.frequencies.set(i, std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(c.head_dim)));
  if (c.norm) {
    inputs.q_norm = random.tensor(DType::kF32, {c.head_dim});
    inputs.k_norm = random.tensor(DType::kF32, {c.head_dim});
  }
  return inputs;
}

Outputs run_rope(const Implementation& implementation, const Case& c, const Inputs& inputs) {
  const auto tokens = std::ssize(inputs.positions);
  Harness harness(implementation);
  Outputs out{HostTensor(implementation.activation, {tokens, c.q_heads, c.head_dim}),
              HostTensor(implementation.activation, {tokens, c.kv_heads, c.head_dim}),
              HostTensor(implementation.activation, {tokens, c.kv_heads, c.head_dim})};
  harness.ops().rope(harness.stream(), {.qkv = inputs.qkv.view(),
                                        .positions = inputs.positions,
                                        .inverse_frequencies = inputs.frequencies.view(),
                                        .q_norm = c.norm ? inputs.q_norm.view() : ConstTensorView(),
                                        .k_norm = c.norm ? inputs.k_norm.view() : ConstTensorView(),
                                        .eps = inputs.eps,
                                        .q = out.q.view(),
                                        .k = out.k.view(),
                                        .v = out.v.view()});
  harness.finish();
  return out;
}

// Heads [first, first + heads) of the fused rows. The angle is one product in f32, as in the contract; sine and cosine
// are within 1 ulp (2u), the norm's factor within (D + 10) * u, and the rotation rounds three times: relative to |a| +
// |b|.
Expected expected_heads(const Case& c, const Inputs& inputs, int64_t first, int64_t heads, const HostTensor& norm,
                        DType out) {
  Expected expected;
  const int64_t row = (c.q_heads + 2 * c.kv_heads) * c.head_dim;
  const int64_t half = c.head_dim / 2;
  const double relative = (c.norm ? static_cast<double>(c.head_dim + 10) : 0.0) * kRoundF32 + 6 * kRoundF32;
  for (int64_t t = 0; t < std::ssize(inputs.positions); ++t) {
    for (int64_t h = first; h < first + heads; ++h) {
      std::vector<double> x;
      double squares = 0;
      for (int64_t d = 0; d < c.head_dim; ++d) {
        x.push_back(inputs.qkv.d(t * row + h * c.head_dim + d));
        squares += x.back() * x.back();
      }
      const double scale = 1 / std::sqrt(squares / static_cast<double>(c.head_dim) + static_cast<double>(inputs.eps));
      for (int64_t d = 0; d < c.head_dim && c.norm; ++d) x[static_cast<size_t>(d)] *= scale * norm.d(d);
      for (int64_t d = 0; d < c.head_dim; ++d) {
        const int64_t i = d % half;
        const float angle = static_cast<float>(inputs.positions[static_cast<size_t>(t)]) * inputs.frequencies.at(i);
        const double a = x[static_cast<size_t>(i)];
        const double b = x[static_cast<size_t>(i + half)];
        const double cosine = std::cos(static_cast<double>(angle));
        const double sine = std::sin(static_cast<double>(angle));
        const double value = d < half ? a * cosine - b * sine : b * cosine + a * sine;
        expected.add(value, relative * (std::abs(a) + std::abs(b)) + 2 * round_of(out) * std::abs(value) + kTiny);
      }
    }
  }
  expected.aggregate = 2 * round_of(out) + 12 * kRoundF32;
  return expected;
}

constexpr Case kCases[] = {{1, 1, 2, false}, {4, 2, 6, true},   {8, 1, 16, true},  {3, 3, 34, false},
                           {4, 2, 64, true}, {2, 1, 128, true}, {2, 1, 256, false}};

TEST_P(Rope, MatchesDouble) {
  uint64_t seed = 1;
  for (size_t i = 0; i < 2 * std::size(kCases); ++i) {
    const Case& c = kCases[i / 2];
    Random random(seed++);
    SCOPED_TRACE(random.seed());
    const Inputs inputs = make_inputs(c, 9, random, i % 2 == 0 ? DType::kF32 : activation());
    const Outputs out = run_rope(GetParam(), c, inputs);
    EXPECT_TRUE(matches(out.q.floats(), expected_heads(c, inputs, 0, c.q_heads, inputs.q_norm, activation())));
    EXPECT_TRUE(matches(out.k.floats(), expected_heads(c, inputs, c.q_heads, c.kv_heads, inputs.k_norm, activation())));
    const int64_t row = (c.q_heads + 2 * c.kv_heads) * c.head_dim;
    for (int64_t v = 0; v < out.v.elements(); ++v) {
      const int64_t width = c.kv_heads * c.head_dim;
      HostTensor rounded(activation(), {1});
      rounded.set(0, inputs.qkv.at(v / width * row + (c.q_heads + c.kv_heads) * c.head_dim + v % width));
      ASSERT_EQ(out.v.at(v), rounded.at(0));
    }
  }
}

TEST_P(Rope, PositionZeroLeavesHeadsAlone) {
  Random random(20);
  SCOPED_TRACE(random.seed());
  const Case c{2, 1, 20, false};
  Inputs inputs = make_inputs(c, 1, random);
  inputs.positions = {0};
  const Outputs out = run_rope(GetParam(), c, inputs);
  for (int64_t i = 0; i < out.q.elements(); ++i) {
    HostTensor rounded(activation(), {1});
    rounded.set(0, inputs.qkv.at(i));
    EXPECT_EQ(out.q.at(i), rounded.at(0));
  }
}

TEST_P(Rope, ElementPairsWithTheOneHalfAHeadAway) {
  // A quarter turn takes (a, b) to (-b, a). The angle pi / 2 is not exact in f32, hence the bound.
  const Case c{1, 1, 4, false};
  Inputs inputs;
  inputs.qkv = HostTensor(DType::kF32, {1, 12});
  for (int64_t i = 0; i < 12; ++i) inputs.qkv.set(i, static_cast<float>(i + 1));
  inputs.positions = {1};
  inputs.frequencies = HostTensor(DType::kF32, {2});
  inputs.frequencies.set(0, 1.57079632679f);
  inputs.frequencies.set(1, 0.0f);
  const Outputs out = run_rope(GetParam(), c, inputs);
  const double wanted[] = {-3.0, 2.0, 1.0, 4.0};
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(out.q.d(i), wanted[i], 1e-6);
}

}  // namespace
}  // namespace zp::test
