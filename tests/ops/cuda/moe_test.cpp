// The mixture of experts against double, with each kernel; and the same bits whatever tokens are beside one.
#include <cmath>

#include "tests/ops/cuda/gpu.h"
#include "tests/ops/moe_case.h"

namespace zp::test {
namespace {

using cuda::MoeChoice;

class CudaMoe : public ::testing::TestWithParam<MoeChoice> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
    gpu_ = std::make_unique<Gpu>(cuda::Choices{.moe = GetParam()});
  }
  [[nodiscard]] Gpu& gpu() { return *gpu_; }

 private:
  std::unique_ptr<Gpu> gpu_;
};

INSTANTIATE_TEST_SUITE_P(All, CudaMoe, ::testing::Values(MoeChoice::kSimple, MoeChoice::kTensor),
                         [](const auto& test) { return test.param == MoeChoice::kSimple ? "Simple" : "Tensor"; });

// A layer's experts on the GPU.
class GpuLayer final {
 public:
  GpuLayer(Gpu& gpu, const ExpertLayer& layer) : gpu_(gpu), size_(layer.size()) {
    const size_t bytes = gpu.ops().expert_blob_bytes(layer.size());
    std::vector<std::byte> memory(bytes + 256, std::byte{0xff});
    auto* blob = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 255) / 256 * 256);
    for (int64_t e = 0; e < layer.experts(); ++e) {
      gpu.ops().pack_expert(layer[e].gate.view(), layer[e].up.view(), layer[e].down.view(), {blob, bytes});
      buffers_.push_back(gpu.device().allocate(bytes));
      gpu.stream().copy(buffers_.back().data(), blob, bytes);
      gpu.finish();
      blobs_.push_back(buffers_.back().data());
    }
  }
  [[nodiscard]] HostTensor run(const Tokens& tokens) const {
    const GpuTensor x = gpu_.upload(tokens.x);
    const GpuTensor ids = gpu_.upload(tokens.ids);
    const GpuTensor weights = gpu_.upload(tokens.weights);
    GpuTensor out = gpu_.poisoned(DType::kF32, tokens.x.shape());
    gpu_.ops().moe(gpu_.stream(), {.x = x.view(),
                                   .ids = ids.view(),
                                   .weights = weights.view(),
                                   .experts = blobs_,
                                   .size = size_,
                                   .out = out.view()});
    return gpu_.download(out);
  }
  struct Normed {
    HostTensor residual;
    HostTensor rows;
  };
  // The experts' sum added to `residual` and normed, over the rows that the experts read: as one operation, or as two.
  [[nodiscard]] Normed run_and_norm(const Tokens& tokens, const HostTensor& residual, const HostTensor& weight,
                                    bool at_once) const {
    GpuTensor x = gpu_.upload(tokens.x);
    const GpuTensor ids = gpu_.upload(tokens.ids);
    const GpuTensor weights = gpu_.upload(tokens.weights);
    const GpuTensor norm_weight = gpu_.upload(weight);
    GpuTensor sum = gpu_.upload(residual);
    GpuTensor out = gpu_.poisoned(DType::kF32, tokens.x.shape());
    MoeArgs args{.x = x.view(),
                 .ids = ids.view(),
                 .weights = weights.view(),
                 .experts = blobs_,
                 .size = size_,
                 .out = out.view()};
    ResidualNormArgs norm{
        .residual = sum.view(), .delta = {}, .weight = norm_weight.view(), .eps = 1e-6f, .out = x.view()};
    if (at_once) args.then = norm;
    gpu_.ops().moe(gpu_.stream(), args);
    norm.delta = out.view();
    if (!at_once) gpu_.ops().residual_norm(gpu_.stream(), norm);
    return {.residual = gpu_.download(sum), .rows = gpu_.download(x)};
  }
  // The blobs of experts that no token is routed to may be null.
  void drop(int64_t expert) { blobs_[static_cast<size_t>(expert)] = nullptr; }

 private:
  Gpu& gpu_;
  ExpertSize size_;
  std::vector<Buffer> buffers_;
  std::vector<const std::byte*> blobs_;
};

struct Sum {
  double value = 0;
  double magnitude = 0;
  void add(double a, double b) {
    value += a * b;
    magnitude += std::abs(a * b);
  }
};

std::vector<double> doubles(const HostTensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.elements(); ++i) values.push_back(tensor.d(i));
  return values;
}

// What one expert makes of one token. Sums over n terms are off by at most e = 4 (n + 8) u * sum|a||b| (tensor cores
// cut bits off). silu's slope is at most 1.1; the inner value is rounded to bf16 and may go to the other neighbour, and
// so may the expert's result.
class ExpertOutputs final {
 public:
  explicit ExpertOutputs(const ExpertLayer& layer) : layer_(layer) {
    for (int64_t e = 0; e < layer.experts(); ++e)
      weights_.push_back({doubles(layer[e].gate), doubles(layer[e].up), doubles(layer[e].down)});
  }
  void add_to(std::vector<double>& sums, std::vector<double>& bounds, const double* x, int64_t expert, double weight) {
    const auto hidden = static_cast<size_t>(layer_.size().hidden);
    const auto intermediate = static_cast<size_t>(layer_.size().intermediate);
    const auto& [gate, up, down] = weights_[static_cast<size_t>(expert)];
    const double chain = 4 * static_cast<double>(hidden + 8) * kRoundF32;
    std::vector<double> inner(intermediate);
    std::vector<double> errors(intermediate);
    for (size_t i = 0; i < intermediate; ++i) {
      Sum g;
      Sum u;
      for (size_t h = 0; h < hidden; ++h) {
        g.add(x[h], gate[i * hidden + h]);
        u.add(x[h], up[i * hidden + h]);
      }
      const double silu = g.value / (1 + std::exp(-g.value));
      inner[i] = static_cast<double>(to_float(to_bf16(static_cast<float>(silu * u.value))));
      errors[i] = 1.1 * std::abs(u.value) * chain * g.magnitude + std::abs(silu) * chain * u.magnitude +
                  2 * kRoundBf16 * std::abs(silu * u.value);
    }
    for (size_t h = 0; h < hidden; ++h) {
      Sum y;
      double error = 0;
      for (size_t i = 0; i < intermediate; ++i) {
        y.add(down[h * intermediate + i], inner[i]);
        error += std::abs(down[h * intermediate + i]) * errors[i];
      }
      error += 4 * static_cast<double>(intermediate + 8) * kRoundF32 * y.magnitude + kRoundBf16 * std::abs(y.value);
      sums[h] += weight * y.value;
      bounds[h] += std::abs(weight) * error;
    }
  }

 private:
  struct Weights {
    std::vector<double> gate;
    std::vector<double> up;
    std::vector<double> down;
  };
  const ExpertLayer& layer_;
  std::vector<Weights> weights_;
};

Expected expected_moe(const ExpertLayer& layer, const Tokens& tokens) {
  ExpertOutputs outputs(layer);
  Expected expected;
  const auto hidden = static_cast<size_t>(layer.size().hidden);
  const int64_t chosen = tokens.ids.shape()[1];
  const std::vector<double> x = doubles(tokens.x);
  for (int64_t t = 0; t < tokens.x.shape()[0]; ++t) {
    std::vector<double> sums(hidden, 0.0);
    std::vector<double> bounds(hidden, kTiny);
    for (int64_t j = 0; j < chosen; ++j)
      outputs.add_to(sums, bounds, x.data() + static_cast<size_t>(t) * hidden,
                     tokens.ids.view().as<int32_t>()[t * chosen + j], tokens.weights.d(t * chosen + j));
    for (size_t h = 0; h < hidden; ++h) expected.add(sums[h], 1.01 * bounds[h]);
  }
  expected.aggregate = 2 * kRoundBf16;
  return expected;
}

TEST_P(CudaMoe, MatchesDouble) {
  uint64_t seed = 100;
  for (const ExpertSize& size : {ExpertSize{8, 1}, ExpertSize{24, 16}, ExpertSize{64, 64}, ExpertSize{192, 128},
                                 ExpertSize{72, 129}, ExpertSize{264, 40}, ExpertSize{256, 200}}) {
    for (const Routing routing : {Routing::kUniform, Routing::kSkewed, Routing::kOne}) {
      Random random(seed++);
      SCOPED_TRACE(random.seed());
      const ExpertLayer layer(random, DType::kBf16, 8, size);
      const Tokens tokens = random_tokens(random, DType::kBf16, layer, 37, 3, routing);
      EXPECT_TRUE(matches(GpuLayer(gpu(), layer).run(tokens).floats(), expected_moe(layer, tokens)))
          << size.hidden << 'x' << size.intermediate;
    }
  }
}

TEST_P(CudaMoe, AnyNumberOfTokens) {
  Random random(130);
  SCOPED_TRACE(random.seed());
  const ExpertLayer layer(random, DType::kBf16, 5, {.hidden = 64, .intermediate = 32});
  const GpuLayer packed(gpu(), layer);
  for (const int64_t tokens : {0, 1, 2, 63, 64, 65, 127, 128, 129, 255, 257, 600})
    for (const Routing routing : {Routing::kUniform, Routing::kOne}) {
      const Tokens made = random_tokens(random, DType::kBf16, layer, tokens, 2, routing);
      EXPECT_TRUE(matches(packed.run(made).floats(), expected_moe(layer, made))) << tokens;
    }
}

TEST_P(CudaMoe, ManyExpertsOfWhichMostAreEmpty) {
  Random random(131);
  SCOPED_TRACE(random.seed());
  const ExpertLayer layer(random, DType::kBf16, 128, {.hidden = 64, .intermediate = 48});
  GpuLayer packed(gpu(), layer);
  const Tokens few = random_tokens(random, DType::kBf16, layer, 3, 8, Routing::kUniform);
  EXPECT_TRUE(matches(packed.run(few).floats(), expected_moe(layer, few)));
  const Tokens many = random_tokens(random, DType::kBf16, layer, 500, 8, Routing::kUniform);
  EXPECT_TRUE(matches(packed.run(many).floats(), expected_moe(layer, many)));
  const Tokens one = random_tokens(random, DType::kBf16, layer, 100, 8, Routing::kOne);
  for (int64_t e = 8; e < 128; ++e) packed.drop(e);
  EXPECT_TRUE(matches(packed.run(one).floats(), expected_moe(layer, one)));
}

TEST_P(CudaMoe, ANormThatFollowsGivesTheBitsOfTwoOperations) {
  Random random(135);
  SCOPED_TRACE(random.seed());
  for (const int64_t hidden : {8, 72, 576}) {
    const ExpertLayer layer(random, DType::kBf16, 9, {.hidden = hidden, .intermediate = 40});
    const GpuLayer packed(gpu(), layer);
    for (const auto& [count, chosen] : {std::pair<int64_t, int64_t>{0, 2}, {1, 1}, {1, 8}, {37, 3}, {257, 8}}) {
      const Tokens tokens = random_tokens(random, DType::kBf16, layer, count, chosen, Routing::kSkewed);
      const HostTensor residual = random.tensor(DType::kF32, {count, hidden});
      const HostTensor weight = random.tensor(DType::kF32, {hidden});
      const auto one = packed.run_and_norm(tokens, residual, weight, true);
      const auto two = packed.run_and_norm(tokens, residual, weight, false);
      EXPECT_TRUE(same_bytes(one.residual.bytes(), two.residual.bytes())) << hidden << ' ' << count << ' ' << chosen;
      EXPECT_TRUE(same_bytes(one.rows.bytes(), two.rows.bytes())) << hidden << ' ' << count << ' ' << chosen;
    }
  }
}

// Sizes of several tiles along every axis.
TEST_P(CudaMoe, SeveralTilesEachWay) {
  Random random(132);
  SCOPED_TRACE(random.seed());
  const ExpertLayer layer(random, DType::kBf16, 3, {.hidden = 576, .intermediate = 448});
  const Tokens tokens = random_tokens(random, DType::kBf16, layer, 200, 2, Routing::kUniform);
  EXPECT_TRUE(matches(GpuLayer(gpu(), layer).run(tokens).floats(), expected_moe(layer, tokens)));
}

// Each cluster has several tiles, of 9 and of 3 steps of k: its four buffers are used again and again, and tiles begin
// at each of them.
TEST_P(CudaMoe, ManyTilesForEachCluster) {
  Random random(136);
  SCOPED_TRACE(random.seed());
  const ExpertLayer layer(random, DType::kBf16, 128, {.hidden = 576, .intermediate = 192});
  const Tokens tokens = random_tokens(random, DType::kBf16, layer, 300, 8, Routing::kUniform);
  EXPECT_TRUE(matches(GpuLayer(gpu(), layer).run(tokens).floats(), expected_moe(layer, tokens)));
}

// More tiles of slots than are worked on at a time, of an expert that all tokens go to beside some that have a few.
TEST_P(CudaMoe, MoreSlotsThanABandOfTiles) {
  Random random(137);
  SCOPED_TRACE(random.seed());
  const ExpertLayer layer(random, DType::kBf16, 6, {.hidden = 264, .intermediate = 136});
  const GpuLayer packed(gpu(), layer);
  for (const int64_t count : {2049, 5000})
    for (const Routing routing : {Routing::kOne, Routing::kSkewed}) {
      const Tokens tokens = random_tokens(random, DType::kBf16, layer, count, 2, routing);
      EXPECT_TRUE(matches(packed.run(tokens).floats(), expected_moe(layer, tokens))) << count;
    }
}

TEST_P(CudaMoe, ATokenHasTheSameBitsWhateverIsBesideIt) {
  Random random(133);
  SCOPED_TRACE(random.seed());
  const ExpertLayer layer(random, DType::kBf16, 16, {.hidden = 512, .intermediate = 320});
  const GpuLayer packed(gpu(), layer);
  const Tokens tokens = random_tokens(random, DType::kBf16, layer, 700, 4, Routing::kSkewed);
  const HostTensor all = packed.run(tokens);
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(same_bytes(packed.run(tokens).bytes(), all.bytes())) << "again";
  for (const int64_t count : {1, 2, 17, 64, 127, 128, 129, 500}) {
    const std::vector<int64_t> order = random.permutation(700);
    const std::span<const int64_t> rows = std::span(order).first(static_cast<size_t>(count));
    EXPECT_TRUE(same_bytes(packed.run(tokens.pick(rows)).bytes(), all.pick(rows).bytes())) << count;
  }
}

TEST_P(CudaMoe, NanStaysInItsToken) {
  Random random(134);
  const ExpertLayer layer(random, DType::kBf16, 4, {.hidden = 64, .intermediate = 16});
  const GpuLayer packed(gpu(), layer);
  Tokens tokens = random_tokens(random, DType::kBf16, layer, 40, 2, Routing::kOne);
  const HostTensor wanted = packed.run(tokens);
  tokens.x.set(7 * 64 + 63, std::numeric_limits<float>::quiet_NaN());
  const HostTensor out = packed.run(tokens);
  for (int64_t t = 0; t < 40; ++t) {
    if (t != 7) {
      EXPECT_TRUE(same_bytes(out.row_bytes(t), wanted.row_bytes(t))) << t;
    }
  }
  for (int64_t h = 0; h < 64; ++h) EXPECT_TRUE(std::isnan(out.at(7 * 64 + h)));
}

}  // namespace
}  // namespace zp::test
