// Linear layers against sums in double.
#include <tuple>

#include "tests/ops/harness.h"

namespace zp::test {
namespace {

class Linear : public OpsTest {};
ZP_FOR_ALL_IMPLEMENTATIONS(Linear);

struct Sizes {
  int64_t m;
  int64_t n;
  int64_t k;
};

// Each product is exact or rounded once, and a chain of k additions in f32 rounds each partial sum, none of which
// exceeds S = sum|a||b|: the error is at most (k + 1) * u * S. Rounding errors of random sign add up to about sqrt(k) *
// u * S. Both the result and, for the comparison with the reference, the expectation are rounded to the type of out.
Expected expected_linear(const HostTensor& x, const HostTensor& weight, DType out) {
  Expected expected;
  const int64_t k = x.shape()[1];
  double magnitude_squares = 0;
  double squares = 0;
  for (int64_t m = 0; m < x.shape()[0]; ++m) {
    for (int64_t n = 0; n < weight.shape()[0]; ++n) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double product = x.d(m * k + i) * weight.d(n * k + i);
        sum += product;
        magnitude += std::abs(product);
      }
      expected.add(sum, static_cast<double>(k + 1) * kRoundF32 * magnitude + 2 * round_of(out) * std::abs(sum) + kTiny);
      if (!std::isfinite(sum)) continue;
      magnitude_squares += magnitude * magnitude;
      squares += sum * sum;
    }
  }
  expected.aggregate = 2 * round_of(out);
  if (squares > 0)
    expected.aggregate += 4 * std::sqrt(static_cast<double>(k)) * kRoundF32 * std::sqrt(magnitude_squares / squares);
  return expected;
}

HostTensor run_linear(const Implementation& implementation, const HostTensor& x, const HostTensor& weight,
                      DType out_type) {
  Harness harness(implementation);
  const PackedMatrix packed = harness.pack(weight);
  HostTensor out(out_type, {x.shape()[0], weight.shape()[0]});
  harness.ops().linear(harness.stream(), {.x = x.view(), .weight = &packed, .out = out.view()});
  harness.finish();
  return out;
}

TEST_P(Linear, MatchesSumsInDouble) {
  // Around the tiles of rows (12, 16, 32), of columns (32) and of depth (32), and the tiny model's shapes.
  const Sizes all_sizes[] = {{0, 8, 8},    {1, 1, 1},     {1, 31, 33},  {3, 32, 32},   {11, 33, 31},
                             {12, 64, 64}, {13, 65, 7},   {15, 16, 96}, {16, 48, 128}, {17, 100, 65},
                             {31, 96, 40}, {32, 32, 192}, {33, 7, 2},   {129, 40, 48}, {40, 256, 192}};
  uint64_t seed = 1;
  for (const Sizes& sizes : all_sizes) {
    Random random(seed++);
    SCOPED_TRACE(random.seed());
    const HostTensor x = random.tensor(activation(), {sizes.m, sizes.k});
    const HostTensor weight = random.tensor(activation(), {sizes.n, sizes.k}, 0.1f);
    for (const DType out_type : {DType::kF32, activation()}) {
      const HostTensor out = run_linear(GetParam(), x, weight, out_type);
      Expected expected = expected_linear(x, weight, out_type);
      EXPECT_TRUE(matches(out.floats(), expected)) << sizes.m << " x " << sizes.n << " x " << sizes.k;
      const HostTensor reference = run_linear(reference_for(GetParam()), x, weight, out_type);
      for (size_t i = 0; i < expected.values.size(); ++i) expected.values[i] = reference.d(static_cast<int64_t>(i));
      EXPECT_TRUE(matches(out.floats(), expected)) << "against the reference";
    }
  }
}

TEST_P(Linear, KeepsNanAndInfinityInTheirRowsAndColumns) {
  Random random(77);
  SCOPED_TRACE(random.seed());
  HostTensor x = random.tensor(activation(), {20, 40});
  HostTensor weight = random.tensor(activation(), {50, 40});
  x.set(3 * 40 + 7, std::numeric_limits<float>::quiet_NaN());
  x.set(9 * 40 + 39, std::numeric_limits<float>::infinity());
  weight.set(33 * 40 + 1, std::numeric_limits<float>::quiet_NaN());
  const HostTensor out = run_linear(GetParam(), x, weight, DType::kF32);
  EXPECT_TRUE(matches(out.floats(), expected_linear(x, weight, DType::kF32)));
}

// The product is complete, and rounded to f32, before it is added once.
TEST_P(Linear, AddsToWhatIsThere) {
  Random random(78);
  SCOPED_TRACE(random.seed());
  for (const auto& [tokens, n, k] :
       {std::tuple<int64_t, int64_t, int64_t>{0, 8, 8}, {1, 1, 1}, {3, 31, 17}, {33, 65, 40}, {130, 96, 64}}) {
    const HostTensor x = random.tensor(activation(), {tokens, k});
    const HostTensor weight = random.tensor(activation(), {n, k});
    const HostTensor before = random.tensor(DType::kF32, {tokens, n});
    const HostTensor product = run_linear(GetParam(), x, weight, DType::kF32);
    HostTensor wanted(DType::kF32, {tokens, n});
    for (int64_t i = 0; i < wanted.elements(); ++i) wanted.set(i, before.at(i) + product.at(i));
    Harness harness(GetParam());
    const PackedMatrix packed = harness.pack(weight);
    HostTensor out = before;
    harness.ops().linear(harness.stream(), {.x = x.view(), .weight = &packed, .out = out.view(), .add = true});
    harness.finish();
    EXPECT_TRUE(same_bytes(out.bytes(), wanted.bytes())) << tokens << " x " << n << " x " << k;
  }
}

TEST_P(Linear, PacksPartsOneAfterAnother) {
  Random random(5);
  SCOPED_TRACE(random.seed());
  const HostTensor x = random.tensor(activation(), {4, 24});
  const HostTensor whole = random.tensor(activation(), {61, 24});
  Harness harness(GetParam());
  const std::vector<ConstTensorView> parts = {whole.view().rows(0, 17), whole.view().rows(17, 0),
                                              whole.view().rows(17, 40), whole.view().rows(57, 4)};
  const PackedMatrix packed = harness.ops().pack_matrix(parts);
  EXPECT_EQ(packed.n, 61);
  EXPECT_EQ(packed.k, 24);
  HostTensor out(DType::kF32, {4, 61});
  harness.ops().linear(harness.stream(), {.x = x.view(), .weight = &packed, .out = out.view()});
  harness.finish();
  EXPECT_TRUE(same_bytes(out.bytes(), run_linear(GetParam(), x, whole, DType::kF32).bytes()));
}

TEST_P(Linear, RoundsWeightsOfAnyFloatingTypeToTheActivationType) {
  // 1.0009765625 = 1 + 2^-10 is a number of f32 and f16, and rounds to 1 in bf16.
  const float value = 1.0009765625f;
  HostTensor x(activation(), {1, 1});
  x.set(0, 1.0f);
  HostTensor f32(DType::kF32, {1, 1});
  f32.set(0, value);
  HostTensor f16(DType::kF16, {1, 1});
  f16.view().as<F16>()[0] = F16{0x3c01};
  HostTensor bf16(DType::kBf16, {1, 1});
  bf16.set(0, value);
  const float wanted = activation() == DType::kF32 ? value : 1.0f;
  EXPECT_EQ(run_linear(GetParam(), x, f32, DType::kF32).at(0), wanted);
  EXPECT_EQ(run_linear(GetParam(), x, f16, DType::kF32).at(0), wanted);
  EXPECT_EQ(run_linear(GetParam(), x, bf16, DType::kF32).at(0), 1.0f);
}

}  // namespace
}  // namespace zp::test
