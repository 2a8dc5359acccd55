// The sum of a token's slots, added to the residual and normed in one pass: against naive loops in double, and with the
// bits of the two passes, for rows of every number of vectors.
#include <cmath>
#include <numeric>

#include "tests/ops/cuda/gpu.h"
#include "zp/ops/cuda/moe_kernels.h"

namespace zp::test {
namespace {

// Tokens whose slots lie anywhere among `y`'s rows, and the residual before them.
struct Case {
  Case(Random& random, int64_t tokens, int64_t chosen, int64_t hidden)
      : y(random.tensor(DType::kBf16, {tokens * chosen, hidden})),
        slots(DType::kI32, {tokens, chosen}),
        weights(DType::kF32, {tokens, chosen}),
        residual(random.tensor(DType::kF32, {tokens, hidden})),
        norm_weight(random.tensor(DType::kF32, {hidden})) {
    const std::vector<int64_t> order = random.permutation(tokens * chosen);
    for (int64_t i = 0; i < tokens * chosen; ++i) {
      slots.view().as<int32_t>()[i] = static_cast<int32_t>(order[static_cast<size_t>(i)]);
      weights.set(i, std::abs(random.normal(0.5f)));
    }
  }
  [[nodiscard]] int64_t tokens() const { return slots.shape()[0]; }
  [[nodiscard]] int64_t chosen() const { return slots.shape()[1]; }
  [[nodiscard]] int64_t hidden() const { return y.shape()[1]; }

  HostTensor y;
  HostTensor slots;
  HostTensor weights;
  HostTensor residual;
  HostTensor norm_weight;
};

enum class Passes : uint8_t { kOne, kTwo, kOneWithoutNorm };

struct Made {
  HostTensor residual;
  HostTensor normed;
};

class CudaCombineNorm : public GpuTest {
 protected:
  static constexpr float kEps = 1e-6f;

  Made run(const Case& given, Passes passes) {
    const GpuTensor y = gpu().upload(given.y);
    const GpuTensor slots = gpu().upload(given.slots);
    const GpuTensor weights = gpu().upload(given.weights);
    const GpuTensor norm_weight = gpu().upload(given.norm_weight);
    GpuTensor residual = gpu().upload(given.residual);
    GpuTensor sum = gpu().poisoned(DType::kF32, given.residual.shape());
    GpuTensor normed = gpu().poisoned(DType::kBf16, given.residual.shape());
    cuda::MoeCombineNormParams params{.sum = {.y = reinterpret_cast<const cuda::Bits16*>(y.view().data()),
                                              .slots = slots.view().as<int32_t>(),
                                              .weights = weights.view().as<float>(),
                                              .out = sum.view().as<float>(),
                                              .tokens = given.tokens(),
                                              .hidden = given.hidden(),
                                              .y_stride = given.hidden(),
                                              .chosen = static_cast<int32_t>(given.chosen())},
                                      .norm = {.residual = residual.view().as<float>(),
                                               .delta = sum.view().as<float>(),
                                               .weight = norm_weight.view().as<float>(),
                                               .out = reinterpret_cast<cuda::Bits16*>(normed.view().data()),
                                               .tokens = given.tokens(),
                                               .hidden = given.hidden(),
                                               .eps = kEps}};
    if (passes == Passes::kOneWithoutNorm) params.norm.out = nullptr;
    auto& stream = dynamic_cast<cuda::CudaStream&>(gpu().stream());
    stream.act("combine and norm", [&] {
      if (passes != Passes::kTwo) return cuda::launch_moe_combine_norm(params, stream.get());
      cuda::launch_moe_combine(params.sum, stream.get());
      cuda::launch_residual_norm(params.norm, stream.get());
    });
    return {.residual = gpu().download(residual), .normed = gpu().download(normed)};
  }
};

// A sum of k products in f32 and one addition are off by at most (k + 1) u of the terms' magnitudes. The norm divides
// by the root of a mean, whose relative error is at most half of that of the squares: (H + 3) u together with the
// roundings around it, and twice the largest error of an element against the row's root mean square. Rounding to bf16
// may go to the other neighbour.
struct Wanted {
  Expected residual;
  Expected normed;
};
Wanted in_double(const Case& given, float eps) {
  Wanted wanted;
  const auto hidden = static_cast<size_t>(given.hidden());
  for (int64_t t = 0; t < given.tokens(); ++t) {
    std::vector<double> row(hidden);
    std::vector<double> bounds(hidden);
    double squares = 0;
    double bounds_squared = 0;
    for (size_t h = 0; h < hidden; ++h) {
      const auto column = static_cast<int64_t>(h);
      row[h] = given.residual.d(t * given.hidden() + column);
      double magnitude = std::abs(row[h]);
      for (int64_t j = 0; j < given.chosen(); ++j) {
        const int64_t slot = given.slots.view().as<int32_t>()[t * given.chosen() + j];
        const double term = given.weights.d(t * given.chosen() + j) * given.y.d(slot * given.hidden() + column);
        row[h] += term;
        magnitude += std::abs(term);
      }
      bounds[h] = static_cast<double>(given.chosen() + 1) * kRoundF32 * magnitude + kTiny;
      squares += row[h] * row[h];
      bounds_squared += bounds[h] * bounds[h];
      wanted.residual.add(row[h], bounds[h]);
    }
    const double count = static_cast<double>(hidden);
    const double scale = 1 / std::sqrt(squares / count + static_cast<double>(eps));
    const double scale_error = (count + 3) * kRoundF32 + 2 * scale * std::sqrt(bounds_squared / count);
    for (size_t h = 0; h < hidden; ++h) {
      const double weight = given.norm_weight.d(static_cast<int64_t>(h));
      const double value = row[h] * scale * weight;
      wanted.normed.add(
          value, (2 * kRoundBf16 + scale_error) * std::abs(value) + bounds[h] * scale * std::abs(weight) + kTiny);
    }
  }
  wanted.residual.aggregate = 16 * kRoundF32;
  wanted.normed.aggregate = kRoundBf16;
  return wanted;
}

TEST_F(CudaCombineNorm, MatchesDoubleAndTwoPasses) {
  uint64_t seed = 200;
  for (const int64_t hidden : {8, 1016, 1024, 1032, 2048, 2056, 4096, 4104, 8192, 8200}) {
    for (const auto& [tokens, chosen] : {std::pair<int64_t, int64_t>{1, 1}, {3, 2}, {5, 7}, {5, 8}, {3, 9}, {2, 17}}) {
      Random random(seed++);
      SCOPED_TRACE(random.seed());
      const Case given(random, tokens, chosen, hidden);
      const Wanted wanted = in_double(given, kEps);
      const Made one = run(given, Passes::kOne);
      EXPECT_TRUE(matches(one.residual.floats(), wanted.residual)) << hidden << ' ' << chosen;
      EXPECT_TRUE(matches(one.normed.floats(), wanted.normed)) << hidden << ' ' << chosen;
      const Made two = run(given, Passes::kTwo);
      EXPECT_TRUE(same_bytes(one.residual.bytes(), two.residual.bytes())) << hidden << ' ' << chosen;
      EXPECT_TRUE(same_bytes(one.normed.bytes(), two.normed.bytes())) << hidden << ' ' << chosen;
    }
  }
}

TEST_F(CudaCombineNorm, WithoutANormOnlyTheSumIsAdded) {
  Random random(250);
  SCOPED_TRACE(random.seed());
  const Case given(random, 4, 8, 4096);
  const Made sum = run(given, Passes::kOneWithoutNorm);
  EXPECT_TRUE(same_bytes(sum.residual.bytes(), run(given, Passes::kTwo).residual.bytes()));
  EXPECT_TRUE(same_bytes(sum.normed.bytes(), HostTensor(DType::kBf16, {4, 4096}).bytes()));  // untouched
}

}  // namespace
}  // namespace zp::test
