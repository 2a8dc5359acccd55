// A row of any result depends on that row's inputs alone, bit for bit. Attention's tests are in a file of their own.
#include <algorithm>

#include "tests/ops/moe_case.h"

namespace zp::test {
namespace {

class Determinism : public OpsTest {
 protected:
  [[nodiscard]] bool is_reference() const { return !GetParam().isa.has_value(); }

  /// Numbers of rows from 1 to 130, and some larger; a few for the slow reference.
  [[nodiscard]] std::vector<int64_t> row_counts() const {
    if (is_reference()) return {1, 2, 33};
    std::vector<int64_t> counts;
    for (int64_t count = 1; count <= 130; ++count) counts.push_back(count);
    counts.insert(counts.end(), {255, 256, 257, 385});
    return counts;
  }
  [[nodiscard]] int64_t rows_all() const { return is_reference() ? 40 : 400; }

  /// Runs `run(harness, rows)` on subsets of rows and expects each row to come out as in a run of all of them.
  template <typename Run>
  void expect_rows_alone(Run run) {
    Random random(99);
    SCOPED_TRACE(random.seed());
    Implementation implementation = GetParam();
    implementation.threads = 1;
    Harness one_thread(implementation);
    Harness threads(GetParam());
    implementation.threads = 5;
    Harness many_threads(implementation);
    std::vector<int64_t> all(static_cast<size_t>(rows_all()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    const std::vector<HostTensor> wanted = run(one_thread, std::span<const int64_t>(all));
    for (Harness* harness : {&threads, &many_threads})
      expect_same(run(*harness, std::span<const int64_t>(all)), wanted, all);
    for (const int64_t count : row_counts()) {
      // Any rows at any positions, some of them twice.
      std::vector<int64_t> rows;
      for (int64_t i = 0; i < count; ++i) rows.push_back(random.integer(0, rows_all() - 1));
      expect_same(run(count % 2 == 0 ? threads : one_thread, std::span<const int64_t>(rows)), wanted, rows);
    }
  }

 private:
  static void expect_same(const std::vector<HostTensor>& results, const std::vector<HostTensor>& wanted,
                          std::span<const int64_t> rows) {
    for (size_t i = 0; i < wanted.size(); ++i)
      ASSERT_TRUE(same_bytes(results[i].bytes(), wanted[i].pick(rows).bytes())) << rows.size() << " rows, result " << i;
  }
};
ZP_FOR_ALL_IMPLEMENTATIONS(Determinism);

TEST_P(Determinism, Linear) {
  struct Sizes {
    int64_t n;
    int64_t k;
  };
  for (const Sizes& sizes : {Sizes{80, 96}, Sizes{33, 40}, Sizes{256, 192}}) {
    Random random(1);
    SCOPED_TRACE(random.seed());
    HostTensor x = random.tensor(activation(), {rows_all(), sizes.k});
    // What a row computes may be NaN; its neighbours must not notice.
    x.set(5 * sizes.k, std::numeric_limits<float>::quiet_NaN());
    const HostTensor weight = random.tensor(activation(), {sizes.n, sizes.k});
    Harness packer(GetParam());
    const PackedMatrix packed = packer.pack(weight);
    for (const DType type : {DType::kF32, activation()}) {
      expect_rows_alone([&](Harness& harness, std::span<const int64_t> rows) {
        const HostTensor picked = x.pick(rows);
        HostTensor out(type, {std::ssize(rows), sizes.n});
        harness.ops().linear(harness.stream(), {.x = picked.view(), .weight = &packed, .out = out.view()});
        harness.finish();
        return std::vector<HostTensor>{out};
      });
    }
  }
}

TEST_P(Determinism, ResidualNorm) {
  Random random(2);
  SCOPED_TRACE(random.seed());
  const HostTensor residual = random.tensor(DType::kF32, {rows_all(), 77});
  const HostTensor delta = random.tensor(DType::kF32, {rows_all(), 77});
  const HostTensor weight = random.tensor(DType::kF32, {77});
  expect_rows_alone([&](Harness& harness, std::span<const int64_t> rows) {
    HostTensor picked = residual.pick(rows);
    const HostTensor picked_delta = delta.pick(rows);
    HostTensor out(activation(), picked.shape());
    harness.ops().residual_norm(harness.stream(), {.residual = picked.view(),
                                                   .delta = picked_delta.view(),
                                                   .weight = weight.view(),
                                                   .eps = 1e-6f,
                                                   .out = out.view()});
    harness.finish();
    return std::vector<HostTensor>{picked, out};
  });
}

TEST_P(Determinism, Rope) {
  Random random(3);
  SCOPED_TRACE(random.seed());
  const HostTensor qkv = random.tensor(activation(), {rows_all(), 8 * 20});
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < rows_all(); ++t) positions.push_back(static_cast<int32_t>(random.integer(0, 5000)));
  const HostTensor frequencies = random.tensor(DType::kF32, {10});
  const HostTensor norm = random.tensor(DType::kF32, {20});
  expect_rows_alone([&](Harness& harness, std::span<const int64_t> rows) {
    const HostTensor picked = qkv.pick(rows);
    std::vector<int32_t> picked_positions;
    for (const int64_t row : rows) picked_positions.push_back(positions[static_cast<size_t>(row)]);
    HostTensor q(activation(), {std::ssize(rows), 4, 20});
    HostTensor k(activation(), {std::ssize(rows), 2, 20});
    HostTensor v(activation(), {std::ssize(rows), 2, 20});
    harness.ops().rope(harness.stream(), {.qkv = picked.view(),
                                          .positions = picked_positions,
                                          .inverse_frequencies = frequencies.view(),
                                          .q_norm = norm.view(),
                                          .k_norm = norm.view(),
                                          .eps = 1e-6f,
                                          .q = q.view(),
                                          .k = k.view(),
                                          .v = v.view()});
    harness.finish();
    return std::vector<HostTensor>{q, k, v};
  });
}

TEST_P(Determinism, Route) {
  Random random(4);
  SCOPED_TRACE(random.seed());
  const HostTensor logits = random.tensor(DType::kF32, {rows_all(), 61});
  expect_rows_alone([&](Harness& harness, std::span<const int64_t> rows) {
    const HostTensor picked = logits.pick(rows);
    HostTensor ids(DType::kI32, {std::ssize(rows), 6});
    HostTensor weights(DType::kF32, {std::ssize(rows), 6});
    harness.ops().route(harness.stream(),
                        {.logits = picked.view(), .normalize = true, .ids = ids.view(), .weights = weights.view()});
    harness.finish();
    return std::vector<HostTensor>{ids, weights};
  });
}

TEST_P(Determinism, Swiglu) {
  Random random(5);
  SCOPED_TRACE(random.seed());
  const HostTensor x = random.tensor(DType::kF32, {rows_all(), 2 * 37});
  expect_rows_alone([&](Harness& harness, std::span<const int64_t> rows) {
    const HostTensor picked = x.pick(rows);
    HostTensor out(activation(), {std::ssize(rows), 37});
    harness.ops().swiglu(harness.stream(), {.x = picked.view(), .out = out.view()});
    harness.finish();
    return std::vector<HostTensor>{out};
  });
}

TEST_P(Determinism, Moe) {
  for (const Routing routing : {Routing::kUniform, Routing::kSkewed, Routing::kOne}) {
    Random random(6);
    SCOPED_TRACE(random.seed());
    const ExpertLayer layer(random, activation(), 12, {.hidden = 72, .intermediate = 40});
    Tokens tokens = random_tokens(random, activation(), layer, rows_all(), 4, routing);
    tokens.x.set(3 * 72 + 9, std::numeric_limits<float>::quiet_NaN());
    Harness packer(GetParam());
    const PackedLayer packed(packer.ops(), layer);
    expect_rows_alone([&](Harness& harness, std::span<const int64_t> rows) {
      return std::vector<HostTensor>{packed.run(harness, tokens.pick(rows))};
    });
  }
}

/// The reference sums in double, where the order hardly shows.
class FastDeterminism : public Determinism {};

std::vector<Implementation> fast_implementations() {
  std::vector<Implementation> fast = all_implementations();
  std::erase_if(fast, [](const Implementation& implementation) { return !implementation.isa.has_value(); });
  return fast;
}

INSTANTIATE_TEST_SUITE_P(All, FastDeterminism, ::testing::ValuesIn(fast_implementations()), implementation_name);

TEST_P(FastDeterminism, MoeSumsInTheOrderOfItsExpertsList) {
  // Swapping a token's experts changes the order of its sum. Were experts summed in the order of their ids, or as they
  // finish, it would not.
  Random random(7);
  SCOPED_TRACE(random.seed());
  const ExpertLayer layer(random, activation(), 6, {.hidden = 64, .intermediate = 32});
  const Tokens tokens = random_tokens(random, activation(), layer, 50, 6, Routing::kUniform);
  Tokens reversed = tokens;
  for (int64_t t = 0; t < 50; ++t) {
    for (int64_t j = 0; j < 6; ++j) {
      reversed.ids.view().as<int32_t>()[t * 6 + j] = tokens.ids.view().as<int32_t>()[t * 6 + 5 - j];
      reversed.weights.set(t * 6 + j, tokens.weights.at(t * 6 + 5 - j));
    }
  }
  const HostTensor forward = run_moe(GetParam(), layer, tokens);
  EXPECT_FALSE(same_bytes(run_moe(GetParam(), layer, reversed).bytes(), forward.bytes()));
  // The sum itself: each expert alone, then added up in f32.
  std::vector<HostTensor> alone;
  for (int64_t j = 0; j < 6; ++j) {
    Tokens one{.x = tokens.x, .ids = HostTensor(DType::kI32, {50, 1}), .weights = HostTensor(DType::kF32, {50, 1})};
    for (int64_t t = 0; t < 50; ++t) {
      one.ids.view().as<int32_t>()[t] = tokens.ids.view().as<int32_t>()[t * 6 + j];
      one.weights.set(t, 1.0f);
    }
    alone.push_back(run_moe(GetParam(), layer, one));
  }
  const bool fused = GetParam().isa != cpu::Isa::kGeneric;
  for (int64_t i = 0; i < forward.elements(); ++i) {
    float sum = 0;
    for (int64_t j = 0; j < 6; ++j) {
      const float weight = tokens.weights.at(i / 64 * 6 + j);
      const float value = alone[static_cast<size_t>(j)].at(i);
      sum = fused ? std::fma(weight, value, sum) : sum + weight * value;
    }
    ASSERT_EQ(forward.at(i), sum) << i;
  }
}

TEST_P(Determinism, Head) {
  Random random(8);
  SCOPED_TRACE(random.seed());
  const int64_t rows_made = rows_all();
  const HostTensor x = random.tensor(activation(), {rows_made, 48});
  // Small logits, so that many tokens of the vocabulary count.
  const HostTensor weight = random.tensor(activation(), {is_reference() ? 70 : 1100, 48}, 0.05f);
  Harness packer(GetParam());
  const PackedMatrix packed = packer.pack(weight);
  const auto candidate = [&](int64_t row) { return static_cast<int32_t>(row * 31 % weight.shape()[0]); };
  expect_rows_alone([&](Harness& harness, std::span<const int64_t> rows) {
    HostTensor log_sum_exp(DType::kF32, {std::ssize(rows)});
    HostTensor logits(DType::kF32, {std::ssize(rows)});
    // No more rows at a time than the limits allow.
    for (int64_t begin = 0; begin < std::ssize(rows); begin += 150) {
      const auto part = rows.subspan(static_cast<size_t>(begin),
                                     static_cast<size_t>(std::min<int64_t>(150, std::ssize(rows) - begin)));
      const HostTensor picked = x.pick(part);
      std::vector<int64_t> offsets = {0};
      std::vector<int32_t> ids;
      for (const int64_t row : part) {
        ids.push_back(candidate(row));
        offsets.push_back(std::ssize(ids));
      }
      harness.ops().head(harness.stream(), {.x = picked.view(),
                                            .weight = &packed,
                                            .offsets = offsets,
                                            .candidates = ids,
                                            .logits = logits.view().rows(begin, std::ssize(part)),
                                            .log_sum_exp = log_sum_exp.view().rows(begin, std::ssize(part))});
      harness.finish();
    }
    return std::vector<HostTensor>{logits, log_sum_exp};
  });
}

TEST_P(Determinism, HeadGivesLinearsLogits) {
  // A candidate's logit must not depend on whether one asks the head or a linear layer.
  Random random(9);
  SCOPED_TRACE(random.seed());
  const HostTensor x = random.tensor(activation(), {3, 64});
  const HostTensor weight = random.tensor(activation(), {600, 64});
  Harness harness(GetParam());
  const PackedMatrix packed = harness.pack(weight);
  HostTensor linear(DType::kF32, {3, 600});
  harness.ops().linear(harness.stream(), {.x = x.view(), .weight = &packed, .out = linear.view()});
  std::vector<int32_t> ids;
  for (int32_t row = 0; row < 3; ++row)
    for (int32_t id = 0; id < 600; ++id) ids.push_back(id);
  const std::vector<int64_t> offsets = {0, 600, 1200, 1800};
  HostTensor logits(DType::kF32, {1800});
  HostTensor log_sum_exp(DType::kF32, {3});
  harness.ops().head(harness.stream(), {.x = x.view(),
                                        .weight = &packed,
                                        .offsets = offsets,
                                        .candidates = ids,
                                        .logits = logits.view(),
                                        .log_sum_exp = log_sum_exp.view()});
  harness.finish();
  EXPECT_TRUE(same_bytes(logits.bytes(), linear.bytes()));
}

}  // namespace
}  // namespace zp::test
