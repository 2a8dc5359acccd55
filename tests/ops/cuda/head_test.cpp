// The output head against the reference, over several slices of the vocabulary.
#include "tests/ops/cuda/gpu.h"

namespace zp::test {
namespace {

class CudaHead : public GpuTest {};

struct HeadResult {
  HostTensor logits;
  HostTensor log_sum_exp;
};

struct HeadCase {
  HostTensor x;
  HostTensor weight;
  std::vector<int64_t> offsets;
  std::vector<int32_t> candidates;

  [[nodiscard]] HeadArgs args() const {
    return {.x = x.view(),
            .weight = nullptr,
            .offsets = offsets,
            .candidates = candidates,
            .logits = {},
            .log_sum_exp = {}};
  }
};

HeadCase random_case(Random& random, int64_t rows, int64_t vocabulary, int64_t hidden) {
  HeadCase made{.x = random.tensor(DType::kBf16, {rows, hidden}, 0.3f),
                .weight = random.tensor(DType::kBf16, {vocabulary, hidden}, 0.3f),
                .offsets = {0},
                .candidates = {}};
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = random.integer(0, 5); c > 0; --c)
      made.candidates.push_back(static_cast<int32_t>(random.integer(0, vocabulary - 1)));
    made.offsets.push_back(std::ssize(made.candidates));
  }
  return made;
}

HeadResult run_reference(const HeadCase& c) {
  Harness reference(bf16_reference());
  const PackedMatrix packed = reference.pack(c.weight);
  HeadResult result{HostTensor(DType::kF32, {std::ssize(c.candidates)}), HostTensor(DType::kF32, {c.x.shape()[0]})};
  HeadArgs args = c.args();
  args.weight = &packed;
  args.logits = result.logits.view();
  args.log_sum_exp = result.log_sum_exp.view();
  reference.ops().head(reference.stream(), args);
  reference.finish();
  return result;
}

HeadResult run_gpu(Gpu& gpu, const HeadCase& c) {
  const PackedMatrix packed = gpu.pack(c.weight);
  const GpuTensor x = gpu.upload(c.x);
  GpuTensor logits = gpu.poisoned(DType::kF32, {std::ssize(c.candidates)});
  GpuTensor log_sum_exp = gpu.poisoned(DType::kF32, {c.x.shape()[0]});
  HeadArgs args = c.args();
  args.x = x.view();
  args.weight = &packed;
  args.logits = logits.view();
  args.log_sum_exp = log_sum_exp.view();
  gpu.ops().head(gpu.stream(), args);
  return {gpu.download(logits), gpu.download(log_sum_exp)};
}

// Logits are off by a sum of H products of values up to about 6 and 2 (outliers), log-sum-exp by as much as a logit.
void expect_matches(Gpu& gpu, const HeadCase& c) {
  const HeadResult wanted = run_reference(c);
  const HeadResult got = run_gpu(gpu, c);
  const double bound = 4 * kRoundF32 * static_cast<double>(c.x.shape()[1]) * 200;
  EXPECT_TRUE(matches(got.logits.floats(), expect_near(
                                               wanted.logits, [&](int64_t) { return bound; }, 1e-4)));
  EXPECT_TRUE(matches(got.log_sum_exp.floats(),
                      expect_near(
                          wanted.log_sum_exp,
                          [&](int64_t i) { return bound + 8 * kRoundF32 * std::abs(wanted.log_sum_exp.d(i)); }, 1e-4)));
}

TEST_F(CudaHead, MatchesTheReference) {
  uint64_t seed = 60;
  for (const int64_t vocabulary : {1, 5, 1000, 32'768, 32'776, 66'000})
    for (const int64_t rows : {1, 3, 20}) {
      Random random(seed++);
      SCOPED_TRACE(random.seed());
      expect_matches(gpu(), random_case(random, rows, vocabulary, 24));
    }
}

TEST_F(CudaHead, NoRowsAndNoCandidates) {
  Random random(80);
  HeadCase c = random_case(random, 2, 100, 16);
  c.offsets = {0, 0, 0};
  c.candidates.clear();
  expect_matches(gpu(), c);
  c.x = HostTensor(DType::kBf16, {0, 16});
  c.offsets = {0};
  expect_matches(gpu(), c);
}

TEST_F(CudaHead, NanAndInfinitiesAreThoseOfTheReference) {
  Random random(81);
  SCOPED_TRACE(random.seed());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // One logit is special: x has one feature that only one token's weights use.
  for (const int64_t vocabulary : {40, 40'000})
    for (const float special : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()})
      for (const int64_t id : {int64_t{0}, vocabulary - 1}) {
        HeadCase c = random_case(random, 3, vocabulary, 8);
        c.weight.set(id * 8, special);
        for (int64_t r = 0; r < 3; ++r) c.x.set(r * 8, 1.0f);
        expect_matches(gpu(), c);
      }
}

TEST_F(CudaHead, ARowHasTheSameBitsWhateverIsBesideIt) {
  Random random(82);
  SCOPED_TRACE(random.seed());
  HeadCase c = random_case(random, 64, 50'000, 192);
  c.candidates.assign(64 * 3, 0);
  c.offsets = {0};
  for (int64_t r = 0; r < 64; ++r) {
    for (int64_t j = 0; j < 3; ++j)
      c.candidates[static_cast<size_t>(r * 3 + j)] = static_cast<int32_t>(r * 300 + j * 15'000);
    c.offsets.push_back((r + 1) * 3);
  }
  const HeadResult all = run_gpu(gpu(), c);
  for (const int64_t row : {0, 1, 31, 63}) {
    HeadCase one = c;
    one.x = c.x.pick(std::vector<int64_t>{row});
    one.candidates.assign(c.candidates.begin() + row * 3, c.candidates.begin() + row * 3 + 3);
    one.offsets = {0, 3};
    const HeadResult alone = run_gpu(gpu(), one);
    EXPECT_TRUE(same_bytes(alone.logits.bytes(), all.logits.row_bytes(row * 3, 3))) << row;
    EXPECT_TRUE(same_bytes(alone.log_sum_exp.bytes(), all.log_sum_exp.row_bytes(row))) << row;
  }
}

}  // namespace
}  // namespace zp::test
