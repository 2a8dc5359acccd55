// Routing against the reference: the same experts, weights near.
#include "tests/ops/cuda/gpu.h"

namespace zp::test {
namespace {

class CudaRoute : public GpuTest {
 protected:
  // exp() is good to a few units, and a sum of E of them to E; the difference of two logits 100 apart to 100 roundoffs.
  void expect_matches(const HostTensor& logits, int64_t chosen, bool normalize) {
    const int64_t tokens = logits.shape()[0];
    HostTensor ids(DType::kI32, {tokens, chosen});
    HostTensor weights(DType::kF32, {tokens, chosen});
    Harness reference(bf16_reference());
    reference.ops().route(
        reference.stream(),
        {.logits = logits.view(), .normalize = normalize, .ids = ids.view(), .weights = weights.view()});
    reference.finish();
    const GpuTensor gpu_logits = gpu().upload(logits);
    GpuTensor gpu_ids = gpu().poisoned(DType::kI32, ids.shape());
    GpuTensor gpu_weights = gpu().poisoned(DType::kF32, weights.shape());
    gpu().ops().route(
        gpu().stream(),
        {.logits = gpu_logits.view(), .normalize = normalize, .ids = gpu_ids.view(), .weights = gpu_weights.view()});
    EXPECT_TRUE(same_bytes(gpu().download(gpu_ids).bytes(), ids.bytes()));
    const double relative = static_cast<double>(logits.shape()[1] + 256) * kRoundF32;
    EXPECT_TRUE(
        matches(gpu().download(gpu_weights).floats(),
                expect_near(
                    weights, [&](int64_t i) { return relative * std::abs(weights.d(i)) + kTiny; }, 32 * kRoundF32)));
  }
};

TEST_F(CudaRoute, MatchesTheReference) {
  Random random(50);
  SCOPED_TRACE(random.seed());
  for (const int64_t experts : {1, 2, 8, 31, 32, 33, 128, 129, 512, 1000}) {
    for (const int64_t chosen : {1, 2, 8, 32}) {
      if (chosen > experts) continue;
      for (const int64_t tokens : {0, 1, 5, 301})
        for (const bool normalize : {true, false}) {
          SCOPED_TRACE(experts);
          expect_matches(random.tensor(DType::kF32, {tokens, experts}, 2.0f), chosen, normalize);
        }
    }
  }
}

TEST_F(CudaRoute, EqualLogitsGoByIdAndNanIsLast) {
  Random random(51);
  SCOPED_TRACE(random.seed());
  for (const int64_t experts : {8, 40, 128}) {
    HostTensor logits(DType::kF32, {200, experts});
    for (int64_t i = 0; i < logits.elements(); ++i) logits.set(i, static_cast<float>(random.integer(0, 3)));
    expect_matches(logits, 8, true);
    HostTensor ids(DType::kI32, {200, 8});
    for (int64_t i = 0; i < logits.elements(); ++i)
      if (random.integer(0, 1) == 0)
        logits.set(i, random.integer(0, 1) == 0 ? std::numeric_limits<float>::quiet_NaN()
                                                : -std::numeric_limits<float>::infinity());
    for (int64_t e = 0; e < experts; ++e) logits.set(e, std::numeric_limits<float>::quiet_NaN());  // all of a token
    expect_matches(logits, 8, true);
  }
}

TEST_F(CudaRoute, TakesExpertsFromATable) {
  Random random(52);
  SCOPED_TRACE(random.seed());
  for (const int64_t experts : {8, 40, 128}) {
    constexpr int64_t kTokens = 301;
    constexpr int64_t kChosen = 8;
    const HostTensor logits = random.tensor(DType::kF32, {kTokens, experts}, 2.0f);
    HostTensor table(DType::kI32, {64, kChosen});
    for (int32_t i = 0; i < 64 * kChosen; ++i)
      table.view().as<int32_t>()[i] = static_cast<int32_t>((i / kChosen + i % kChosen) % experts);
    std::vector<int32_t> tokens;
    std::vector<int32_t> positions;
    for (int64_t t = 0; t < kTokens; ++t) {
      tokens.push_back(static_cast<int32_t>(random.integer(0, 150'000)));
      positions.push_back(static_cast<int32_t>(random.integer(0, 1000)));
    }
    HostTensor ids(DType::kI32, {kTokens, kChosen});
    HostTensor weights(DType::kF32, {kTokens, kChosen});
    const auto args = [&](const ConstTensorView& logits_view, const ConstTensorView& table_view) {
      return RouteArgs{.logits = logits_view,
                       .normalize = true,
                       .ids = {},
                       .weights = {},
                       .table = table_view,
                       .tokens = tokens,
                       .positions = positions};
    };
    Harness reference(bf16_reference());
    RouteArgs on_host = args(logits.view(), table.view());
    on_host.ids = ids.view();
    on_host.weights = weights.view();
    reference.ops().route(reference.stream(), on_host);
    reference.finish();
    const GpuTensor gpu_logits = gpu().upload(logits);
    const GpuTensor gpu_table = gpu().upload(table);
    GpuTensor gpu_ids = gpu().poisoned(DType::kI32, ids.shape());
    GpuTensor gpu_weights = gpu().poisoned(DType::kF32, weights.shape());
    RouteArgs on_gpu = args(gpu_logits.view(), gpu_table.view());
    on_gpu.ids = gpu_ids.view();
    on_gpu.weights = gpu_weights.view();
    gpu().ops().route(gpu().stream(), on_gpu);
    EXPECT_TRUE(same_bytes(gpu().download(gpu_ids).bytes(), ids.bytes()));
    // Experts of the table may be far below the top: the difference of two logits is rounded before its exponential.
    double largest = 0;
    for (int64_t i = 0; i < logits.elements(); ++i) largest = std::max(largest, std::abs(logits.d(i)));
    const double relative = (static_cast<double>(experts + 256) + 4 * largest) * kRoundF32;
    EXPECT_TRUE(
        matches(gpu().download(gpu_weights).floats(),
                expect_near(
                    weights, [&](int64_t i) { return relative * std::abs(weights.d(i)) + kTiny; }, 32 * kRoundF32)));
  }
}

}  // namespace
}  // namespace zp::test
