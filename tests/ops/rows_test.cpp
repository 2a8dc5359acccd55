// Embedding, residual norm, SwiGLU, and the copies.
#include "tests/ops/harness.h"

namespace zp::test {
namespace {

class Rows : public OpsTest {};
ZP_FOR_ALL_IMPLEMENTATIONS(Rows);

// Around vectors of 4, 8 and 16 elements, and four of them.
constexpr int64_t kWidths[] = {1, 3, 4, 7, 8, 15, 16, 17, 33, 64, 65, 192, 255};

TEST_P(Rows, EmbedWidensTheRowsNamed) {
  Random random(1);
  SCOPED_TRACE(random.seed());
  for (const int64_t hidden : kWidths) {
    const HostTensor table = random.tensor(activation(), {9, hidden});
    const std::vector<int32_t> ids = {8, 0, 3, 3, 7};
    Harness harness(GetParam());
    HostTensor out(DType::kF32, {5, hidden});
    harness.ops().embed(harness.stream(), {.ids = ids, .table = table.view(), .out = out.view()});
    harness.finish();
    for (int64_t t = 0; t < 5; ++t)
      for (int64_t h = 0; h < hidden; ++h)
        ASSERT_EQ(out.at(t * hidden + h), table.at(ids[static_cast<size_t>(t)] * hidden + h));
  }
}

struct Normed {
  HostTensor residual;
  HostTensor out;
};

Normed run_norm(const Implementation& implementation, HostTensor residual, const HostTensor& delta,
                const HostTensor& weight, float eps, bool with_out = true) {
  Harness harness(implementation);
  HostTensor out(implementation.activation, residual.shape());
  harness.ops().residual_norm(harness.stream(), {.residual = residual.view(),
                                                 .delta = delta.elements() > 0 ? delta.view() : ConstTensorView(),
                                                 .weight = weight.view(),
                                                 .eps = eps,
                                                 .out = with_out ? out.view() : TensorView()});
  harness.finish();
  return {std::move(residual), std::move(out)};
}

// The sum of squares is off by at most (h + 1) * u of itself, half of which reaches its root; root, quotient and the
// two products round once each. All errors are relative, and the result is rounded to A.
Expected expected_norm(const HostTensor& residual, const HostTensor& weight, float eps, DType out) {
  Expected expected;
  const int64_t hidden = residual.shape()[1];
  const double relative = static_cast<double>(hidden + 10) * kRoundF32;
  for (int64_t t = 0; t < residual.shape()[0]; ++t) {
    double squares = 0;
    for (int64_t h = 0; h < hidden; ++h) squares += residual.d(t * hidden + h) * residual.d(t * hidden + h);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(hidden) + static_cast<double>(eps));
    for (int64_t h = 0; h < hidden; ++h) {
      const double value = residual.d(t * hidden + h) * scale * weight.d(h);
      expected.add(value, std::abs(value) * (relative + 2 * round_of(out)) + kTiny);
    }
  }
  expected.aggregate = 2 * round_of(out) + 10 * kRoundF32;
  return expected;
}

TEST_P(Rows, ResidualNormAddsAndNormalises) {
  Random random(2);
  SCOPED_TRACE(random.seed());
  for (const int64_t hidden : kWidths) {
    for (const bool with_delta : {false, true}) {
      const HostTensor residual = random.tensor(DType::kF32, {6, hidden});
      const HostTensor delta = random.tensor(DType::kF32, {with_delta ? 6 : 0, hidden});
      const HostTensor weight = random.tensor(DType::kF32, {hidden});
      const Normed normed = run_norm(GetParam(), residual, delta, weight, 1e-6f);
      // One addition in f32 has one result.
      for (int64_t i = 0; i < residual.elements(); ++i)
        ASSERT_EQ(normed.residual.at(i), with_delta ? residual.at(i) + delta.at(i) : residual.at(i));
      Expected expected = expected_norm(normed.residual, weight, 1e-6f, activation());
      EXPECT_TRUE(matches(normed.out.floats(), expected)) << hidden;
      const Normed reference = run_norm(reference_for(GetParam()), residual, delta, weight, 1e-6f);
      for (size_t i = 0; i < expected.values.size(); ++i) expected.values[i] = reference.out.d(static_cast<int64_t>(i));
      EXPECT_TRUE(matches(normed.out.floats(), expected)) << hidden << " against the reference";
    }
  }
}

TEST_P(Rows, ResidualNormOfConstantsIsTheWeight) {
  HostTensor residual(DType::kF32, {1, 20});
  HostTensor weight(DType::kF32, {20});
  for (int64_t i = 0; i < 20; ++i) {
    residual.set(i, -4.0f);
    weight.set(i, 0.25f * static_cast<float>(i));
  }
  const Normed normed = run_norm(GetParam(), residual, HostTensor(DType::kF32, {0, 20}), weight, 0.0f);
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(normed.out.at(i), -weight.at(i));
}

TEST_P(Rows, ResidualNormOfZerosIsZero) {
  HostTensor residual(DType::kF32, {1, 5});
  HostTensor weight(DType::kF32, {5});
  for (int64_t i = 0; i < 5; ++i) {
    residual.set(i, 0.0f);
    weight.set(i, 1.0f);
  }
  const Normed normed = run_norm(GetParam(), residual, HostTensor(DType::kF32, {0, 5}), weight, 1e-6f);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(normed.out.at(i), 0.0f);
}

TEST_P(Rows, ResidualNormWithoutOutputOnlyAdds) {
  Random random(3);
  SCOPED_TRACE(random.seed());
  const HostTensor residual = random.tensor(DType::kF32, {3, 21});
  const HostTensor delta = random.tensor(DType::kF32, {3, 21});
  const Normed normed = run_norm(GetParam(), residual, delta, random.tensor(DType::kF32, {21}), 1e-6f, false);
  for (int64_t i = 0; i < residual.elements(); ++i) ASSERT_EQ(normed.residual.at(i), residual.at(i) + delta.at(i));
}

TEST_P(Rows, ResidualNormKeepsNanInItsRow) {
  Random random(4);
  SCOPED_TRACE(random.seed());
  HostTensor residual = random.tensor(DType::kF32, {3, 40});
  residual.set(40 + 39, std::numeric_limits<float>::quiet_NaN());
  const HostTensor weight = random.tensor(DType::kF32, {40});
  const Normed normed = run_norm(GetParam(), residual, HostTensor(DType::kF32, {0, 40}), weight, 1e-6f);
  EXPECT_TRUE(matches(normed.out.floats(), expected_norm(normed.residual, weight, 1e-6f, activation())));
}

HostTensor run_swiglu(const Implementation& implementation, const HostTensor& x) {
  Harness harness(implementation);
  HostTensor out(implementation.activation, {x.shape()[0], x.shape()[1] / 2});
  harness.ops().swiglu(harness.stream(), {.x = x.view(), .out = out.view()});
  harness.finish();
  return out;
}

// exp is within 2 ulp, so within 4u; 1 + exp, the quotient and the product round once each. Where exp(-gate) leaves the
// range of f32, silu is below 2^-120 and may come out as zero.
Expected expected_swiglu(const HostTensor& x, DType out) {
  Expected expected;
  const int64_t width = x.shape()[1] / 2;
  for (int64_t t = 0; t < x.shape()[0]; ++t) {
    for (int64_t i = 0; i < width; ++i) {
      const double gate = x.d(t * 2 * width + i);
      const double up = x.d(t * 2 * width + width + i);
      const double value = gate / (1 + std::exp(-gate)) * up;
      expected.add(value, std::abs(value) * (8 * kRoundF32 + 2 * round_of(out)) + 1e-34 * std::abs(up) + kTiny);
    }
  }
  expected.aggregate = 8 * kRoundF32 + 2 * round_of(out);
  return expected;
}

TEST_P(Rows, SwigluMatchesDouble) {
  Random random(6);
  SCOPED_TRACE(random.seed());
  for (const int64_t width : kWidths) {
    for (const DType type : {DType::kF32, activation()}) {
      const HostTensor x = random.tensor(type, {5, 2 * width}, 4.0f);
      const HostTensor out = run_swiglu(GetParam(), x);
      Expected expected = expected_swiglu(x, activation());
      EXPECT_TRUE(matches(out.floats(), expected)) << width;
      const HostTensor reference = run_swiglu(reference_for(GetParam()), x);
      for (size_t i = 0; i < expected.values.size(); ++i) expected.values[i] = reference.d(static_cast<int64_t>(i));
      EXPECT_TRUE(matches(out.floats(), expected)) << width << " against the reference";
    }
  }
}

TEST_P(Rows, SwigluAtTheEdgesOfExp) {
  // The largest and smallest gates, both zeros, and what is no number.
  const std::vector<float> gates = {0.0f,
                                    -0.0f,
                                    1e-30f,
                                    -87.0f,
                                    -88.0f,
                                    -89.0f,
                                    -100.0f,
                                    -1e30f,
                                    88.72f,
                                    89.0f,
                                    1e30f,
                                    std::numeric_limits<float>::infinity(),
                                    -std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::quiet_NaN()};
  const auto width = std::ssize(gates);
  HostTensor x(DType::kF32, {1, 2 * width});
  for (int64_t i = 0; i < width; ++i) {
    x.set(i, gates[static_cast<size_t>(i)]);
    x.set(width + i, 1.0f);
  }
  Expected expected = expected_swiglu(x, activation());
  EXPECT_TRUE(matches(run_swiglu(GetParam(), x).floats(), expected));
}

TEST_P(Rows, GatherCopiesRows) {
  Random random(7);
  SCOPED_TRACE(random.seed());
  const HostTensor x = random.tensor(DType::kF32, {40, 33});
  const std::vector<int64_t> rows = {39, 0, 7, 7, 12};
  Harness harness(GetParam());
  HostTensor out(DType::kF32, {5, 33});
  harness.ops().gather_rows(harness.stream(), {.x = x.view(), .rows = rows, .out = out.view()});
  harness.finish();
  EXPECT_TRUE(same_bytes(out.bytes(), x.pick(rows).bytes()));
}

TEST_P(Rows, GatherCopiesRowsOfActivations) {
  Random random(17);
  SCOPED_TRACE(random.seed());
  const HostTensor x = random.tensor(activation(), {9, 33});
  const std::vector<int64_t> rows = {8, 8, 0};
  Harness harness(GetParam());
  HostTensor out(activation(), {3, 33});
  harness.ops().gather_rows(harness.stream(), {.x = x.view(), .rows = rows, .out = out.view()});
  harness.finish();
  EXPECT_TRUE(same_bytes(out.bytes(), x.pick(rows).bytes()));
}

TEST_P(Rows, ConvertRoundsEachElement) {
  Random random(18);
  SCOPED_TRACE(random.seed());
  const HostTensor x = random.tensor(DType::kF32, {5, 37});
  HostTensor narrow(activation(), {5, 37});
  HostTensor wide(DType::kF32, {5, 37});
  Harness harness(GetParam());
  harness.ops().convert(harness.stream(), {.x = x.view(), .out = narrow.view()});
  harness.ops().convert(harness.stream(), {.x = narrow.view(), .out = wide.view()});
  harness.finish();
  for (int64_t i = 0; i < x.elements(); ++i) {
    const float rounded = activation() == DType::kBf16 ? to_float(to_bf16(x.at(i))) : x.at(i);
    EXPECT_EQ(narrow.at(i), rounded);
    EXPECT_EQ(wide.at(i), rounded);
  }
}

// k products and sums in f32, each rounded relative to the sum of magnitudes so far: (k + 1) * eps of that sum.
TEST_P(Rows, CombineSumsWeightedRows) {
  Random random(19);
  SCOPED_TRACE(random.seed());
  constexpr int64_t kTokens = 7, kChosen = 3, kHidden = 300;
  const HostTensor x = random.tensor(activation(), {kTokens * kChosen, kHidden});
  const HostTensor weights = random.tensor(DType::kF32, {kTokens, kChosen});
  const std::vector<int64_t> rows = random.permutation(kTokens * kChosen);
  HostTensor out(DType::kF32, {kTokens, kHidden});
  Harness harness(GetParam());
  harness.ops().combine(harness.stream(), {.x = x.view(), .rows = rows, .weights = weights.view(), .out = out.view()});
  harness.finish();
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t h = 0; h < kHidden; ++h) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t j = 0; j < kChosen; ++j) {
        const double product =
            weights.d(t * kChosen + j) * x.d(rows[static_cast<size_t>(t * kChosen + j)] * kHidden + h);
        sum += product;
        magnitude += std::abs(product);
      }
      ASSERT_NEAR(out.d(t * kHidden + h), sum, (kChosen + 1) * kRoundF32 * magnitude) << t << ", " << h;
    }
  }
}

TEST_P(Rows, StoreKvCopiesRows) {
  Random random(8);
  SCOPED_TRACE(random.seed());
  const HostTensor k = random.tensor(activation(), {40, 2, 6});
  const HostTensor v = random.tensor(activation(), {40, 2, 6});
  HostTensor kept_k(activation(), {19, 2, 6});
  HostTensor kept_v(activation(), {19, 2, 6});
  const TensorView k_tail = kept_k.view().rows(16, 3);
  const TensorView v_tail = kept_v.view().rows(16, 3);
  const std::vector<KvStore> stores = {{.row = 5, .tokens = 16, .k = kept_k.view().data(), .v = kept_v.view().data()},
                                       {.row = 0, .tokens = 0, .k = nullptr, .v = nullptr},
                                       {.row = 37, .tokens = 3, .k = k_tail.data(), .v = v_tail.data()}};
  Harness harness(GetParam());
  harness.ops().store_kv(harness.stream(), {.k = k.view(), .v = v.view(), .stores = stores});
  harness.finish();
  EXPECT_TRUE(same_bytes(kept_k.row_bytes(0, 16), k.row_bytes(5, 16)));
  EXPECT_TRUE(same_bytes(kept_k.row_bytes(16, 3), k.row_bytes(37, 3)));
  EXPECT_TRUE(same_bytes(kept_v.row_bytes(0, 16), v.row_bytes(5, 16)));
  EXPECT_TRUE(same_bytes(kept_v.row_bytes(16, 3), v.row_bytes(37, 3)));
}

TEST_P(Rows, NothingIsDoneForNoRows) {
  Harness harness(GetParam());
  HostTensor none(DType::kF32, {0, 8});
  HostTensor none_a(activation(), {0, 8});
  const HostTensor weight = Random(1).tensor(DType::kF32, {8});
  const HostTensor table = Random(1).tensor(activation(), {3, 8});
  harness.ops().embed(harness.stream(), {.ids = {}, .table = table.view(), .out = none.view()});
  harness.ops().residual_norm(
      harness.stream(),
      {.residual = none.view(), .delta = none.view(), .weight = weight.view(), .eps = 1e-6f, .out = none_a.view()});
  const HostTensor wide(DType::kF32, {0, 16});
  harness.ops().swiglu(harness.stream(), {.x = wide.view(), .out = none_a.view()});
  harness.ops().gather_rows(harness.stream(), {.x = none.view(), .rows = {}, .out = none.view()});
  harness.ops().convert(harness.stream(), {.x = none.view(), .out = none_a.view()});
  const HostTensor no_weights(DType::kF32, {0, 2});
  harness.ops().combine(harness.stream(),
                        {.x = none_a.view(), .rows = {}, .weights = no_weights.view(), .out = none.view()});
  const HostTensor no_kv(activation(), {0, 2, 4});
  harness.ops().store_kv(harness.stream(), {.k = no_kv.view(), .v = no_kv.view(), .stores = {}});
  harness.finish();
}

}  // namespace
}  // namespace zp::test
