// The output head against double.
#include <algorithm>

#include "tests/ops/harness.h"

namespace zp::test {
namespace {

class Head : public OpsTest {};
ZP_FOR_ALL_IMPLEMENTATIONS(Head);

struct Candidates {
  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> ids;
};

struct HeadOut {
  HostTensor logits;
  HostTensor log_sum_exp;
};

Candidates random_candidates(Random& random, int64_t rows, int64_t vocabulary) {
  Candidates candidates;
  for (int64_t r = 0; r < rows; ++r) {
    // None, one, or several, some twice; the first and the last token among them.
    const int64_t count = random.integer(0, 5);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = i == 0 ? 0 : i == 1 ? vocabulary - 1 : random.integer(0, vocabulary - 1);
      candidates.ids.push_back(static_cast<int32_t>(id));
    }
    candidates.offsets.push_back(std::ssize(candidates.ids));
  }
  return candidates;
}

HeadOut run_head(const Implementation& implementation, const HostTensor& x, const HostTensor& weight,
                 const Candidates& candidates) {
  Harness harness(implementation);
  const PackedMatrix packed = harness.pack(weight);
  HeadOut out{HostTensor(DType::kF32, {candidates.offsets.back()}), HostTensor(DType::kF32, {x.shape()[0]})};
  harness.ops().head(harness.stream(), {.x = x.view(),
                                        .weight = &packed,
                                        .offsets = candidates.offsets,
                                        .candidates = candidates.ids,
                                        .logits = out.logits.view(),
                                        .log_sum_exp = out.log_sum_exp.view()});
  harness.finish();
  return out;
}

struct ExpectedHead {
  Expected logits;
  Expected log_sum_exp;
};

// Logits are chains over H. log(sum(exp)) moves by no more than the logit that moves most; a sum of up to 512 weights,
// each within 4u and from a rounded difference to the largest, is off by (520 + 40) * u of itself, which the log turns
// into an absolute error; the result rounds once.
ExpectedHead expected_head(const HostTensor& x, const HostTensor& weight, const Candidates& candidates) {
  ExpectedHead expected;
  const int64_t hidden = x.shape()[1];
  const int64_t vocabulary = weight.shape()[0];
  for (int64_t r = 0; r < x.shape()[0]; ++r) {
    std::vector<double> logits;
    std::vector<double> bounds;
    for (int64_t v = 0; v < vocabulary; ++v) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t h = 0; h < hidden; ++h) {
        const double product = x.d(r * hidden + h) * weight.d(v * hidden + h);
        sum += product;
        magnitude += std::abs(product);
      }
      logits.push_back(sum);
      bounds.push_back(static_cast<double>(hidden + 1) * kRoundF32 * magnitude + 2 * kRoundF32 * std::abs(sum));
    }
    for (int64_t c = candidates.offsets[static_cast<size_t>(r)]; c < candidates.offsets[static_cast<size_t>(r) + 1];
         ++c) {
      const auto id = static_cast<size_t>(candidates.ids[static_cast<size_t>(c)]);
      expected.logits.add(logits[id], bounds[id] + kTiny);
    }
    const double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - top);
    const double value = top + std::log(sum);
    expected.log_sum_exp.add(value,
                             *std::max_element(bounds.begin(), bounds.end()) + (560 + 2 * std::abs(value)) * kRoundF32);
  }
  expected.logits.aggregate = 64 * kRoundF32;
  expected.log_sum_exp.aggregate = 64 * kRoundF32;
  return expected;
}

TEST_P(Head, MatchesDouble) {
  struct Sizes {
    int64_t rows;
    int64_t vocabulary;
    int64_t hidden;
  };
  uint64_t seed = 1;
  // Around panels of 32 tokens, chunks of 512, items of 64 rows.
  for (const Sizes& sizes : {Sizes{1, 1, 1}, Sizes{3, 31, 8}, Sizes{5, 33, 24}, Sizes{2, 511, 16}, Sizes{2, 512, 33},
                             Sizes{3, 513, 40}, Sizes{2, 2000, 12}, Sizes{70, 600, 16}, Sizes{130, 100, 8}}) {
    Random random(seed++);
    SCOPED_TRACE(random.seed());
    const HostTensor x = random.tensor(activation(), {sizes.rows, sizes.hidden});
    const HostTensor weight = random.tensor(activation(), {sizes.vocabulary, sizes.hidden}, 0.3f);
    const Candidates candidates = random_candidates(random, sizes.rows, sizes.vocabulary);
    const HeadOut out = run_head(GetParam(), x, weight, candidates);
    ExpectedHead expected = expected_head(x, weight, candidates);
    EXPECT_TRUE(matches(out.logits.floats(), expected.logits)) << sizes.vocabulary;
    EXPECT_TRUE(matches(out.log_sum_exp.floats(), expected.log_sum_exp)) << sizes.vocabulary;
    const HeadOut reference = run_head(reference_for(GetParam()), x, weight, candidates);
    for (size_t i = 0; i < expected.logits.values.size(); ++i)
      expected.logits.values[i] = reference.logits.d(static_cast<int64_t>(i));
    for (size_t i = 0; i < expected.log_sum_exp.values.size(); ++i)
      expected.log_sum_exp.values[i] = reference.log_sum_exp.d(static_cast<int64_t>(i));
    EXPECT_TRUE(matches(out.logits.floats(), expected.logits)) << "against the reference";
    EXPECT_TRUE(matches(out.log_sum_exp.floats(), expected.log_sum_exp)) << "against the reference";
  }
}

TEST_P(Head, EqualLogitsGiveTheLogOfTheVocabulary) {
  HostTensor x(activation(), {1, 4});
  HostTensor weight(activation(), {700, 4});
  for (int64_t i = 0; i < 4; ++i) x.set(i, 1.0f);
  for (int64_t i = 0; i < 2800; ++i) weight.set(i, 25.0f);
  const HeadOut out = run_head(GetParam(), x, weight, {.offsets = {0, 2}, .ids = {699, 3}});
  EXPECT_EQ(out.logits.at(0), 100.0f);
  EXPECT_EQ(out.logits.at(1), 100.0f);
  EXPECT_NEAR(out.log_sum_exp.d(0), 100 + std::log(700.0), 1e-5);
}

TEST_P(Head, EveryTokenMayBeACandidate) {
  Random random(30);
  SCOPED_TRACE(random.seed());
  const HostTensor x = random.tensor(activation(), {2, 16});
  const HostTensor weight = random.tensor(activation(), {1100, 16});
  Candidates candidates;
  for (int32_t id = 1099; id >= 0; --id) candidates.ids.push_back(id);
  for (int32_t id = 0; id < 1100; ++id) candidates.ids.push_back(id);
  candidates.offsets = {0, 1100, 2200};
  const HeadOut out = run_head(GetParam(), x, weight, candidates);
  EXPECT_TRUE(matches(out.logits.floats(), expected_head(x, weight, candidates).logits));
  // Probabilities of all tokens sum to 1.
  double sum = 0;
  for (int64_t i = 0; i < 1100; ++i) sum += std::exp(out.logits.d(i) - out.log_sum_exp.d(0));
  EXPECT_NEAR(sum, 1.0, 1e-4);
}

TEST_P(Head, NanAndInfinityStayInTheirRows) {
  const float inf = std::numeric_limits<float>::infinity();
  // Row r reads logit r * column v of one hidden feature each: the logit is the weight itself.
  HostTensor x(activation(), {4, 4});
  for (int64_t i = 0; i < 16; ++i) x.set(i, i % 5 == 0 ? 1.0f : 0.0f);
  HostTensor weight(activation(), {600, 4});
  for (int64_t i = 0; i < 2400; ++i) weight.set(i, 0.0f);
  for (int64_t r = 0; r < 4; ++r) x.set(r * 4 + 3, 0.0f);
  HostTensor big_x = x;
  big_x.set(0, inf);                                          // row 0: inf * 1 at token 550, inf * 0 = NaN elsewhere
  big_x.set(4 + 1, std::numeric_limits<float>::quiet_NaN());  // row 1: NaN
  weight.set(550 * 4, 1.0f);
  const HeadOut out = run_head(GetParam(), big_x, weight, {.offsets = {0, 1, 1, 1, 1}, .ids = {550}});
  EXPECT_EQ(out.logits.at(0), inf);
  EXPECT_TRUE(std::isnan(out.log_sum_exp.at(0)));
  EXPECT_TRUE(std::isnan(out.log_sum_exp.at(1)));
  EXPECT_NEAR(out.log_sum_exp.d(2), std::log(600.0), 1e-5);
  EXPECT_NEAR(out.log_sum_exp.d(3), std::log(600.0), 1e-5);
}

TEST_P(Head, InfiniteLogits) {
  // Logits of -infinity have no weight; one of +infinity has all of it.
  const float inf = std::numeric_limits<float>::infinity();
  HostTensor x(activation(), {1, 1});
  x.set(0, 1.0f);
  HostTensor weight(activation(), {1030, 1});
  for (int64_t v = 0; v < 1030; ++v) weight.set(v, -inf);
  EXPECT_EQ(run_head(GetParam(), x, weight, {.offsets = {0, 0}, .ids = {}}).log_sum_exp.at(0), -inf);
  weight.set(1029, 3.0f);
  EXPECT_NEAR(run_head(GetParam(), x, weight, {.offsets = {0, 0}, .ids = {}}).log_sum_exp.d(0), 3.0, 1e-6);
  weight.set(5, inf);
  EXPECT_EQ(run_head(GetParam(), x, weight, {.offsets = {0, 0}, .ids = {}}).log_sum_exp.at(0), inf);
}

TEST_P(Head, NoRows) {
  const HeadOut out =
      run_head(GetParam(), HostTensor(activation(), {0, 8}), Random(1).tensor(activation(), {40, 8}), {});
  EXPECT_EQ(out.log_sum_exp.elements(), 0);
}

}  // namespace
}  // namespace zp::test
