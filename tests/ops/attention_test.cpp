// Causal attention against softmax in double.
#include <algorithm>

#include "tests/ops/attention_case.h"

namespace zp::test {
namespace {

class Attention : public OpsTest {};
ZP_FOR_ALL_IMPLEMENTATIONS(Attention);

// Rows [cached, tokens) of a sequence. A score is a chain over D of products with scaled queries: off by at most e = (D
// + 3) * u * sum|q||k| * scale. Two scores off by e change the ratio of their weights by 2e; the chains over n tokens
// and the online rescaling (exp within 4u, one factor each 64 tokens) add (2n + 20) * u. All is relative to sum(weight
// |v|).
void append_expected(const HeadSizes& sizes, const Cut& cut, Expected& expected) {
  const Sequence& s = *cut.sequence;
  const int64_t group = sizes.q_heads / sizes.kv_heads;
  const double scale = 1 / std::sqrt(static_cast<double>(sizes.head_dim));
  for (int64_t t = cut.cached; t < cut.tokens; ++t) {
    for (int64_t h = 0; h < sizes.q_heads; ++h) {
      std::vector<double> weights;
      double score_error = 0;
      for (int64_t p = 0; p <= t; ++p) {
        double score = 0;
        double magnitude = 0;
        for (int64_t d = 0; d < sizes.head_dim; ++d) {
          const double product = s.q.d((t * sizes.q_heads + h) * sizes.head_dim + d) *
                                 s.k.d((p * sizes.kv_heads + h / group) * sizes.head_dim + d);
          score += product;
          magnitude += std::abs(product);
        }
        weights.push_back(score * scale);
        score_error = std::max(score_error, static_cast<double>(sizes.head_dim + 3) * kRoundF32 * magnitude * scale);
      }
      const double top = *std::max_element(weights.begin(), weights.end());
      double sum = 0;
      for (double& weight : weights) {
        weight = std::exp(weight - top);
        sum += weight;
      }
      const double relative = 2 * score_error + static_cast<double>(2 * t + 22) * kRoundF32 + 2 * round_of(s.q.dtype());
      for (int64_t d = 0; d < sizes.head_dim; ++d) {
        double value = 0;
        double magnitude = 0;
        for (int64_t p = 0; p <= t; ++p) {
          const double term =
              weights[static_cast<size_t>(p)] / sum * s.v.d((p * sizes.kv_heads + h / group) * sizes.head_dim + d);
          value += term;
          magnitude += std::abs(term);
        }
        expected.add(value, relative * magnitude + 2 * round_of(s.q.dtype()) * std::abs(value) + kTiny);
      }
    }
  }
}

Expected expected_batch(const HeadSizes& sizes, DType type, const std::vector<Cut>& cuts) {
  Expected expected;
  for (const Cut& cut : cuts) append_expected(sizes, cut, expected);
  // Scores of outliers reach about 400, so their random errors dominate: sqrt(D) * u * 400 is below 1e-3 of u's scale.
  expected.aggregate = 2 * round_of(type) + 400 * 4 * kRoundF32;
  return expected;
}

void expect_matches(const Implementation& implementation, const HeadSizes& sizes, const std::vector<Cut>& cuts) {
  const AttentionBatch batch(sizes, implementation.activation, cuts);
  Harness harness(implementation);
  const HostTensor out = batch.run(harness);
  Expected expected = expected_batch(sizes, implementation.activation, cuts);
  EXPECT_TRUE(matches(out.floats(), expected));
  Harness reference_harness(reference_for(implementation));
  const HostTensor reference = batch.run(reference_harness);
  for (size_t i = 0; i < expected.values.size(); ++i) expected.values[i] = reference.d(static_cast<int64_t>(i));
  EXPECT_TRUE(matches(out.floats(), expected)) << "against the reference";
}

TEST_P(Attention, MatchesDoubleForAllHeadLayouts) {
  uint64_t seed = 1;
  for (const HeadSizes& sizes : {HeadSizes{1, 1, 1}, HeadSizes{2, 2, 6}, HeadSizes{6, 2, 16}, HeadSizes{8, 1, 20},
                                 HeadSizes{4, 1, 64}, HeadSizes{7, 7, 9}, HeadSizes{2, 1, 128}}) {
    Random random(seed++);
    SCOPED_TRACE(random.seed());
    const Sequence a = random_sequence(random, activation(), sizes, 70);
    const Sequence b = random_sequence(random, activation(), sizes, 33);
    expect_matches(GetParam(), sizes, {{&a, 70, 0, {}}, {&b, 33, 16, {}}});
  }
}

TEST_P(Attention, MatchesDoubleAroundTileBoundaries) {
  const HeadSizes sizes{4, 2, 16};
  uint64_t seed = 10;
  for (const int64_t tokens : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200}) {
    Random random(seed++);
    SCOPED_TRACE(random.seed());
    const Sequence sequence = random_sequence(random, activation(), sizes, tokens);
    expect_matches(GetParam(), sizes, {{&sequence, tokens, 0, {}}});
    const int64_t cached = (tokens - 1) / kExtentGranule * kExtentGranule;
    expect_matches(GetParam(), sizes, {{&sequence, tokens, cached, {16, 48, 128}}});
  }
}

TEST_P(Attention, MatchesDoubleOverALongContext) {
  const HeadSizes sizes{2, 1, 8};
  Random random(39);
  SCOPED_TRACE(random.seed());
  const Sequence sequence = random_sequence(random, activation(), sizes, 32771);
  expect_matches(GetParam(), sizes, {{&sequence, 32771, 32768, {128, 4096, 16}}});
}

TEST_P(Attention, OneTokenReturnsItsValue) {
  const HeadSizes sizes{4, 2, 6};
  Random random(40);
  SCOPED_TRACE(random.seed());
  const Sequence sequence = random_sequence(random, activation(), sizes, 1);
  const AttentionBatch batch(sizes, activation(), {{&sequence, 1, 0, {}}});
  Harness harness(GetParam());
  const HostTensor out = batch.run(harness);
  for (int64_t h = 0; h < 4; ++h)
    for (int64_t d = 0; d < 6; ++d) EXPECT_EQ(out.at(h * 6 + d), sequence.v.at(h / 2 * 6 + d));
}

TEST_P(Attention, EqualKeysAverageTheValues) {
  const HeadSizes sizes{1, 1, 4};
  Sequence sequence{HostTensor(activation(), {100, 1, 4}), HostTensor(activation(), {100, 1, 4}),
                    HostTensor(activation(), {100, 1, 4})};
  for (int64_t i = 0; i < 400; ++i) {
    sequence.q.set(i, 1.0f);
    sequence.k.set(i, 0.5f);
    sequence.v.set(i, static_cast<float>(i / 4 % 2));
  }
  const AttentionBatch batch(sizes, activation(), {{&sequence, 100, 0, {}}});
  Harness harness(GetParam());
  const HostTensor out = batch.run(harness);
  // Of 0..t, every second token's value is 1.
  for (int64_t t = 0; t < 100; ++t) {
    const double wanted = static_cast<double>((t + 1) / 2) / static_cast<double>(t + 1);
    EXPECT_NEAR(out.d(t * 4), wanted, wanted * (round_activation() + 1e-6) + 1e-9) << t;
  }
}

TEST_P(Attention, LargeScoresDoNotOverflow) {
  const HeadSizes sizes{2, 1, 8};
  Random random(41);
  SCOPED_TRACE(random.seed());
  Sequence sequence = random_sequence(random, activation(), sizes, 130);
  // Scores of about +-1e6: one key takes all the weight.
  sequence.q = random.tensor(activation(), {130, 2, 8}, 1000.0f);
  sequence.k = random.tensor(activation(), {130, 1, 8}, 1000.0f);
  const AttentionBatch batch(sizes, activation(), {{&sequence, 130, 64, {}}});
  Harness harness(GetParam());
  for (const float value : batch.run(harness).floats()) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(Attention, NanReachesOnlyTheRowsThatSeeIt) {
  const HeadSizes sizes{4, 2, 10};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t poisoned : {0, 5, 63, 64, 80, 99}) {
    for (const bool in_value : {false, true}) {
      Random random(42);
      SCOPED_TRACE(random.seed());
      const Sequence clean = random_sequence(random, activation(), sizes, 100);
      Sequence bad = clean;
      // Of kv head 1, which query heads 2 and 3 read.
      (in_value ? bad.v : bad.k).set((poisoned * 2 + 1) * 10 + 3, nan);
      Harness harness(GetParam());
      const HostTensor wanted = AttentionBatch(sizes, activation(), {{&clean, 100, 0, {}}}).run(harness);
      const HostTensor out =
          AttentionBatch(sizes, activation(), {{&bad, 100, 0, {}}, {&clean, 100, 96, {}}}).run(harness);
      for (int64_t i = 0; i < wanted.elements(); ++i) {
        const int64_t t = i / 40;
        const bool sees = t >= poisoned && i / 10 % 4 >= 2 && (!in_value || i % 10 == 3);
        if (sees) {
          ASSERT_TRUE(std::isnan(out.at(i))) << "token " << t;
        } else {
          ASSERT_EQ(out.at(i), wanted.at(i)) << "token " << t;
        }
      }
      EXPECT_TRUE(same_bytes(out.row_bytes(100, 4), wanted.row_bytes(96, 4)));
    }
  }
}

TEST_P(Attention, MinusInfinityKeysAreIgnored) {
  // The first tile has no weight at all, in a later one all is well; a row that sees only such keys is NaN.
  const HeadSizes sizes{1, 1, 2};
  Sequence sequence{HostTensor(activation(), {70, 1, 2}), HostTensor(activation(), {70, 1, 2}),
                    HostTensor(activation(), {70, 1, 2})};
  for (int64_t i = 0; i < 140; ++i) {
    sequence.q.set(i, 1.0f);
    sequence.k.set(i, i < 132 ? -std::numeric_limits<float>::infinity() : 1.0f);
    sequence.v.set(i, 3.0f);
  }
  const AttentionBatch batch(sizes, activation(), {{&sequence, 70, 0, {}}});
  Harness harness(GetParam());
  const HostTensor out = batch.run(harness);
  for (int64_t t = 0; t < 70; ++t) {
    if (t < 66) {
      EXPECT_TRUE(std::isnan(out.at(2 * t))) << t;
    } else {
      EXPECT_EQ(out.at(2 * t), 3.0f) << t;
    }
  }
}

TEST_P(Attention, WritesOverItsQueries) {
  const HeadSizes sizes{6, 2, 12};
  Random random(43);
  SCOPED_TRACE(random.seed());
  const Sequence sequence = random_sequence(random, activation(), sizes, 90);
  const AttentionBatch batch(sizes, activation(), {{&sequence, 90, 16, {}}});
  Harness harness(GetParam());
  const HostTensor wanted = batch.run(harness);
  HostTensor in_place = batch.q();
  AttentionArgs args = batch.args(in_place.view());
  args.q = in_place.view();
  harness.ops().attention(harness.stream(), args);
  harness.finish();
  EXPECT_TRUE(same_bytes(in_place.bytes(), wanted.bytes()));
}

TEST_P(Attention, NoRows) {
  Harness harness(GetParam());
  const AttentionBatch batch({2, 1, 4}, activation(), {});
  EXPECT_EQ(batch.run(harness).elements(), 0);
  const Sequence empty = {HostTensor(activation(), {0, 2, 4}), HostTensor(activation(), {0, 1, 4}),
                          HostTensor(activation(), {0, 1, 4})};
  const AttentionBatch one({2, 1, 4}, activation(), {{&empty, 0, 0, {}}});
  EXPECT_EQ(one.run(harness).elements(), 0);
}

}  // namespace
}  // namespace zp::test
