// The mixture of experts against double.
#include <algorithm>
#include <thread>

#include "tests/ops/moe_case.h"

namespace zp::test {
namespace {

class Moe : public OpsTest {};
ZP_FOR_ALL_IMPLEMENTATIONS(Moe);

struct Term {
  double value = 0;
  double magnitude = 0;
};

Term dot(const HostTensor& a, int64_t a_begin, const HostTensor& b, int64_t b_begin, int64_t count) {
  Term term;
  for (int64_t i = 0; i < count; ++i) {
    const double product = a.d(a_begin + i) * b.d(b_begin + i);
    term.value += product;
    term.magnitude += std::abs(product);
  }
  return term;
}

// Of one expert, for one token. Gate and up are chains over H: off by e = (H + 1) * u * sum|a||b|. silu's slope is at
// most 1.1, so the inner value is off by at most 1.1 * |up| * e_gate + |silu| * e_up, and 8u for silu itself, and is
// rounded to A. Down is a chain over I.
struct ExpertOutput {
  std::vector<double> values;  // [H]
  std::vector<double> errors;
};

ExpertOutput run_expert(const ExpertWeights& weights, const HostTensor& x, int64_t token, const ExpertSize& size) {
  std::vector<double> inner;
  std::vector<double> inner_error;
  const double chain = static_cast<double>(size.hidden + 1) * kRoundF32;
  for (int64_t i = 0; i < size.intermediate; ++i) {
    const Term gate = dot(x, token * size.hidden, weights.gate, i * size.hidden, size.hidden);
    const Term up = dot(x, token * size.hidden, weights.up, i * size.hidden, size.hidden);
    const double silu = gate.value / (1 + std::exp(-gate.value));
    HostTensor rounded(x.dtype(), {1});
    rounded.set(0, static_cast<float>(silu * up.value));
    inner.push_back(rounded.d(0));
    inner_error.push_back(1.1 * std::abs(up.value) * chain * gate.magnitude + std::abs(silu) * chain * up.magnitude +
                          (8 * kRoundF32 + 2 * round_of(x.dtype())) * std::abs(silu * up.value) + kTiny);
  }
  ExpertOutput out;
  for (int64_t h = 0; h < size.hidden; ++h) {
    double sum = 0;
    double error = 0;
    double magnitude = 0;
    for (int64_t i = 0; i < size.intermediate; ++i) {
      const double weight = weights.down.d(h * size.intermediate + i);
      sum += weight * inner[static_cast<size_t>(i)];
      magnitude += std::abs(weight * inner[static_cast<size_t>(i)]);
      error += std::abs(weight) * inner_error[static_cast<size_t>(i)];
    }
    out.values.push_back(sum);
    out.errors.push_back(error + static_cast<double>(size.intermediate + 1) * kRoundF32 * magnitude);
  }
  return out;
}

Expected expected_moe(const ExpertLayer& layer, const Tokens& tokens) {
  Expected expected;
  const auto hidden = static_cast<size_t>(layer.size().hidden);
  const int64_t chosen = tokens.ids.shape()[1];
  for (int64_t t = 0; t < tokens.x.shape()[0]; ++t) {
    std::vector<double> sum(hidden, 0.0);
    std::vector<double> bound(hidden, kTiny);
    for (int64_t j = 0; j < chosen; ++j) {
      const int64_t expert = tokens.ids.view().as<int32_t>()[t * chosen + j];
      const double weight = tokens.weights.d(t * chosen + j);
      const ExpertOutput out = run_expert(layer[expert], tokens.x, t, layer.size());
      for (size_t h = 0; h < hidden; ++h) {
        sum[h] += weight * out.values[h];
        // The sum over j is a chain of k products.
        bound[h] +=
            std::abs(weight) * (out.errors[h] + static_cast<double>(chosen + 1) * kRoundF32 * std::abs(out.values[h]));
      }
    }
    for (size_t h = 0; h < hidden; ++h) expected.add(sum[h], bound[h]);
  }
  // Of the random errors of I roundings to A about one survives, relative to the terms, which cancel by sqrt(I) too.
  expected.aggregate = 2 * round_of(tokens.x.dtype()) + 2000 * kRoundF32;
  return expected;
}

void expect_matches(const Implementation& implementation, const ExpertLayer& layer, const Tokens& tokens) {
  const HostTensor out = run_moe(implementation, layer, tokens);
  Expected expected = expected_moe(layer, tokens);
  EXPECT_TRUE(matches(out.floats(), expected));
  const HostTensor reference = run_moe(reference_for(implementation), layer, tokens);
  for (size_t i = 0; i < expected.values.size(); ++i) expected.values[i] = reference.d(static_cast<int64_t>(i));
  EXPECT_TRUE(matches(out.floats(), expected)) << "against the reference";
}

TEST_P(Moe, MatchesDouble) {
  uint64_t seed = 1;
  for (const ExpertSize& size : {ExpertSize{1, 1}, ExpertSize{24, 16}, ExpertSize{32, 32}, ExpertSize{40, 17},
                                 ExpertSize{64, 15}, ExpertSize{65, 33}, ExpertSize{300, 20}}) {
    for (const Routing routing : {Routing::kUniform, Routing::kSkewed, Routing::kOne}) {
      Random random(seed++);
      SCOPED_TRACE(random.seed());
      const ExpertLayer layer(random, activation(), 8, size);
      expect_matches(GetParam(), layer, random_tokens(random, activation(), layer, 35, 3, routing));
    }
  }
}

TEST_P(Moe, MatchesDoubleWithOneExpertAToken) {
  Random random(50);
  SCOPED_TRACE(random.seed());
  const ExpertLayer layer(random, activation(), 5, {.hidden = 32, .intermediate = 48});
  for (const int64_t tokens : {1, 2, 16, 33}) {
    expect_matches(GetParam(), layer, random_tokens(random, activation(), layer, tokens, 1, Routing::kOne));
    expect_matches(GetParam(), layer, random_tokens(random, activation(), layer, tokens, 1, Routing::kUniform));
  }
}

TEST_P(Moe, AllTokensToTheSameExpertsInManyChunks) {
  Random random(51);
  SCOPED_TRACE(random.seed());
  const ExpertLayer layer(random, activation(), 4, {.hidden = 16, .intermediate = 8});
  expect_matches(GetParam(), layer, random_tokens(random, activation(), layer, 300, 2, Routing::kOne));
}

TEST_P(Moe, AllExpertsForEveryToken) {
  Random random(52);
  SCOPED_TRACE(random.seed());
  const ExpertLayer layer(random, activation(), 6, {.hidden = 32, .intermediate = 32});
  expect_matches(GetParam(), layer, random_tokens(random, activation(), layer, 20, 6, Routing::kUniform));
}

TEST_P(Moe, NanStaysInItsToken) {
  Random random(53);
  SCOPED_TRACE(random.seed());
  const ExpertLayer layer(random, activation(), 4, {.hidden = 32, .intermediate = 16});
  Tokens tokens = random_tokens(random, activation(), layer, 40, 2, Routing::kOne);
  const HostTensor wanted = run_moe(GetParam(), layer, tokens);
  tokens.x.set(7 * 32 + 31, std::numeric_limits<float>::quiet_NaN());
  const HostTensor out = run_moe(GetParam(), layer, tokens);
  for (int64_t t = 0; t < 40; ++t) {
    if (t != 7) {
      EXPECT_TRUE(same_bytes(out.row_bytes(t), wanted.row_bytes(t))) << t;
    }
  }
  for (int64_t h = 0; h < 32; ++h) EXPECT_TRUE(std::isnan(out.at(7 * 32 + h)));
}

TEST_P(Moe, WeightsAndInnerProductInClosedForm) {
  // One hidden and one inner feature: y = w * down * (silu(g x) * u x).
  ExpertWeights weights{HostTensor(activation(), {1, 1}), HostTensor(activation(), {1, 1}),
                        HostTensor(activation(), {1, 1})};
  weights.gate.set(0, 0.0f);
  weights.up.set(0, 4.0f);
  weights.down.set(0, 2.0f);
  Harness harness(GetParam());
  const size_t bytes = harness.ops().expert_blob_bytes({.hidden = 1, .intermediate = 1});
  EXPECT_EQ(bytes % 256, 0u);
  std::vector<std::byte> memory(bytes + 256);
  auto* blob = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 255) / 256 * 256);
  harness.ops().pack_expert(weights.gate.view(), weights.up.view(), weights.down.view(), {blob, bytes});
  Tokens tokens{HostTensor(activation(), {1, 1}), HostTensor(DType::kI32, {1, 1}), HostTensor(DType::kF32, {1, 1})};
  tokens.x.set(0, 3.0f);
  tokens.ids.view().as<int32_t>()[0] = 0;
  tokens.weights.set(0, 0.5f);
  HostTensor out(DType::kF32, {1, 1});
  const std::byte* blobs[] = {blob};
  harness.ops().moe(harness.stream(), {.x = tokens.x.view(),
                                       .ids = tokens.ids.view(),
                                       .weights = tokens.weights.view(),
                                       .experts = blobs,
                                       .size = {.hidden = 1, .intermediate = 1},
                                       .out = out.view()});
  harness.finish();
  EXPECT_EQ(out.at(0), 0.0f);  // silu(0) = 0
}

TEST_P(Moe, PackingGivesTheSameBytesFromEveryThreadAndType) {
  Random random(54);
  SCOPED_TRACE(random.seed());
  // Values of bf16, so that f32 sources convert to the same.
  const ExpertLayer layer(random, DType::kBf16, 1, {.hidden = 40, .intermediate = 24});
  ExpertWeights wide;
  for (const auto& [from, to] :
       {std::pair{&layer[0].gate, &wide.gate}, {&layer[0].up, &wide.up}, {&layer[0].down, &wide.down}}) {
    *to = HostTensor(DType::kF32, from->shape());
    for (int64_t i = 0; i < from->elements(); ++i) to->set(i, from->at(i));
  }
  Harness harness(GetParam());
  const size_t bytes = harness.ops().expert_blob_bytes(layer.size());
  const auto pack = [&](const ExpertWeights& weights, std::byte fill) {
    std::vector<std::byte> memory(bytes + 256, fill);
    auto* blob = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 255) / 256 * 256);
    harness.ops().pack_expert(weights.gate.view(), weights.up.view(), weights.down.view(), {blob, bytes});
    return std::vector<std::byte>(blob, blob + bytes);
  };
  const std::vector<std::byte> wanted = pack(layer[0], std::byte{0});
  EXPECT_TRUE(same_bytes(pack(wide, std::byte{0xff}), wanted)) << "padding is defined";
  std::vector<std::vector<std::byte>> packed(4);
  {
    std::vector<std::jthread> threads;
    for (auto& result : packed) threads.emplace_back([&] { result = pack(layer[0], std::byte{1}); });
  }
  for (const auto& result : packed) EXPECT_TRUE(same_bytes(result, wanted));
}

// The norm that follows may write over the rows that the experts read.
TEST_P(Moe, ANormThatFollowsGivesTheBitsOfTwoOperations) {
  Random random(56);
  SCOPED_TRACE(random.seed());
  for (const int64_t hidden : {1, 40, 257})
    for (const int64_t count : {0, 1, 5})
      for (const bool normed : {true, false}) {
        const ExpertLayer layer(random, activation(), 4, {.hidden = hidden, .intermediate = 24});
        const Tokens tokens = random_tokens(random, activation(), layer, count, 3, Routing::kUniform);
        const HostTensor start = random.tensor(DType::kF32, {count, hidden});
        const HostTensor weight = random.tensor(DType::kF32, {hidden});
        Harness harness(GetParam());
        const PackedLayer packed(harness.ops(), layer);
        HostTensor wanted_sum = start;
        HostTensor wanted(activation(), {count, hidden});
        const HostTensor delta = packed.run(harness, tokens);
        ResidualNormArgs norm{
            .residual = wanted_sum.view(), .delta = delta.view(), .weight = {}, .eps = 1e-6f, .out = {}};
        if (normed) {
          norm.weight = weight.view();
          norm.out = wanted.view();
        }
        harness.ops().residual_norm(harness.stream(), norm);
        harness.finish();

        HostTensor sum = start;
        HostTensor rows = tokens.x;
        HostTensor scratch(DType::kF32, {count, hidden});
        norm.residual = sum.view();
        norm.delta = {};
        if (normed) norm.out = rows.view();
        harness.ops().moe(harness.stream(), {.x = rows.view(),
                                             .ids = tokens.ids.view(),
                                             .weights = tokens.weights.view(),
                                             .experts = packed.blobs(),
                                             .size = layer.size(),
                                             .out = scratch.view(),
                                             .then = norm});
        harness.finish();
        EXPECT_TRUE(same_bytes(sum.bytes(), wanted_sum.bytes())) << hidden << ' ' << count;
        EXPECT_TRUE(same_bytes(rows.bytes(), normed ? wanted.bytes() : tokens.x.bytes())) << hidden << ' ' << count;
        if (count > 0) {
          EXPECT_FALSE(same_bytes(sum.bytes(), start.bytes()));
        }
      }
}

TEST_P(Moe, NoTokens) {
  Random random(55);
  const ExpertLayer layer(random, activation(), 2, {.hidden = 8, .intermediate = 8});
  const Tokens tokens = random_tokens(random, activation(), layer, 0, 2, Routing::kUniform);
  EXPECT_EQ(run_moe(GetParam(), layer, tokens).elements(), 0);
}

}  // namespace
}  // namespace zp::test
