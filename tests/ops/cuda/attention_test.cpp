// Attention against the reference; the same bits alone, in a batch, and however the context was cached.
#include "tests/ops/attention_case.h"
#include "tests/ops/cuda/gpu.h"

namespace zp::test {
namespace {

using cuda::AttentionChoice;

class CudaAttention : public ::testing::TestWithParam<AttentionChoice> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
    gpu_ = std::make_unique<Gpu>(cuda::Choices{.attention = GetParam()});
  }
  [[nodiscard]] Gpu& gpu() { return *gpu_; }

  // One step over `cuts` on the GPU: [fresh rows of all, Q, D]. Cached extents lie in memory of their own, or (where
  // `from_step` says so) among the fresh rows of the cut before, which then is the same sequence from its beginning.
  [[nodiscard]] HostTensor run(const HeadSizes& sizes, const std::vector<Cut>& cuts, bool from_step = false,
                               bool in_place = false) {
    const AttentionBatch batch(sizes, DType::kBf16, cuts);
    const AttentionArgs host = batch.args({});
    const auto copy = [&](const ConstTensorView& view) {
      GpuTensor tensor(gpu().device(), view.dtype(), view.shape());
      gpu().stream().copy(tensor.view().data(), view.data(), view.size_bytes());
      gpu().finish();
      return tensor;
    };
    GpuTensor q = copy(host.q);
    const GpuTensor k = copy(host.k);
    const GpuTensor v = copy(host.v);
    std::vector<GpuTensor> cached;
    std::vector<std::vector<KvExtent>> extents;
    std::vector<AttentionSequence> sequences;
    for (const AttentionSequence& sequence : host.sequences) {
      std::vector<KvExtent>& on_gpu = extents.emplace_back();
      int64_t row = sequences.empty() ? 0 : sequences.back().row;
      for (const KvExtent& extent : sequence.prefix) {
        const Shape shape{extent.tokens, sizes.kv_heads, sizes.head_dim};
        if (from_step) {
          on_gpu.push_back({.k = k.view().rows(row, extent.tokens).data(),
                            .v = v.view().rows(row, extent.tokens).data(),
                            .tokens = extent.tokens});
          row += extent.tokens;
          continue;
        }
        cached.push_back(copy({extent.k, DType::kBf16, shape}));
        const std::byte* keys = cached.back().view().data();
        cached.push_back(copy({extent.v, DType::kBf16, shape}));
        on_gpu.push_back({.k = keys, .v = cached.back().view().data(), .tokens = extent.tokens});
      }
      sequences.push_back({.row = sequence.row, .tokens = sequence.tokens, .prefix = {}});
    }
    for (size_t s = 0; s < sequences.size(); ++s) sequences[s].prefix = extents[s];
    GpuTensor out = gpu().poisoned(DType::kBf16, host.q.shape());
    gpu().ops().attention(gpu().stream(), {.q = q.view(),
                                           .k = k.view(),
                                           .v = v.view(),
                                           .sequences = sequences,
                                           .scale = host.scale,
                                           .out = in_place ? q.view() : out.view()});
    return gpu().download(in_place ? q : out);
  }

  // Weights of a row are positive and add up to 1, each is rounded to bf16, and off by the error of its exponent: sums
  // of D products are good to far less than that. So a result is off by a few roundings of sum(weight * |v|), which is
  // what attention makes of |v|, and one rounding of its own.
  void expect_matches(const HeadSizes& sizes, const std::vector<Cut>& cuts) {
    Harness reference(bf16_reference());
    const HostTensor wanted = AttentionBatch(sizes, DType::kBf16, cuts).run(reference);
    std::vector<Sequence> positive;
    positive.reserve(cuts.size());
    std::vector<Cut> positive_cuts = cuts;
    for (Cut& cut : positive_cuts) {
      positive.push_back({cut.sequence->q, cut.sequence->k, absolute(cut.sequence->v)});
      cut.sequence = &positive.back();
    }
    const HostTensor magnitude = AttentionBatch(sizes, DType::kBf16, positive_cuts).run(reference);
    EXPECT_TRUE(matches(
        run(sizes, cuts).floats(),
        expect_near(
            wanted,
            [&](int64_t i) { return 3 * kRoundBf16 * magnitude.d(i) + 2 * kRoundBf16 * std::abs(wanted.d(i)) + kTiny; },
            2 * kRoundBf16)));
  }

 private:
  std::unique_ptr<Gpu> gpu_;
};

std::vector<AttentionChoice> all_choices() { return {AttentionChoice::kSimple, AttentionChoice::kTensor}; }

INSTANTIATE_TEST_SUITE_P(All, CudaAttention, ::testing::ValuesIn(all_choices()),
                         [](const auto& test) { return test.param == AttentionChoice::kSimple ? "Simple" : "Tensor"; });

const std::vector<HeadSizes>& head_sizes() {
  static const std::vector<HeadSizes> sizes = {{4, 2, 128}, {8, 1, 64}, {6, 2, 32},   {2, 2, 16},
                                               {3, 3, 256}, {5, 1, 80}, {16, 1, 128}, {1, 1, 128}};
  return sizes;
}

TEST_P(CudaAttention, MatchesTheReference) {
  uint64_t seed = 200;
  for (const HeadSizes& sizes : head_sizes()) {
    Random random(seed++);
    SCOPED_TRACE(random.seed());
    std::vector<Sequence> sequences;
    for (const int64_t tokens : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200, 300})
      sequences.push_back(random_sequence(random, DType::kBf16, sizes, tokens));
    std::vector<Cut> cuts;
    for (const Sequence& sequence : sequences) cuts.push_back({&sequence, sequence.tokens(), 0, {}});
    expect_matches(sizes, cuts);
  }
}

TEST_P(CudaAttention, MatchesTheReferenceOverCachedExtents) {
  uint64_t seed = 230;
  for (const HeadSizes& sizes : head_sizes()) {
    Random random(seed++);
    SCOPED_TRACE(random.seed());
    std::vector<Sequence> sequences;
    for (const int64_t tokens : {17, 65, 130, 300, 500})
      sequences.push_back(random_sequence(random, DType::kBf16, sizes, tokens));
    expect_matches(sizes, {{&sequences[0], 17, 16, {}},
                           {&sequences[1], 65, 48, {16, 32}},
                           {&sequences[2], 130, 128, {128}},
                           {&sequences[3], 300, 128, {32, 16, 80}},
                           {&sequences[4], 500, 496, {128, 128, 16, 128}},
                           {&sequences[4], 500, 0, {}}});
  }
}

// Each block has several works, of one tile of keys and of more: its buffers are used again and again, and works begin
// at each of them.
TEST_P(CudaAttention, ManyWorksForEachBlock) {
  const HeadSizes sizes{8, 8, 64};
  Random random(250);
  SCOPED_TRACE(random.seed());
  std::vector<Sequence> sequences;
  for (int i = 0; i < 60; ++i)
    sequences.push_back(random_sequence(random, DType::kBf16, sizes, random.integer(1, 300)));
  std::vector<Cut> cuts;
  for (const Sequence& sequence : sequences) cuts.push_back({&sequence, sequence.tokens(), 0, {}});
  expect_matches(sizes, cuts);
}

TEST_P(CudaAttention, ManyTilesOfKeys) {
  for (const HeadSizes& sizes : {HeadSizes{2, 1, 128}, HeadSizes{1, 1, 64}}) {
    Random random(251);
    SCOPED_TRACE(random.seed());
    const Sequence sequence = random_sequence(random, DType::kBf16, sizes, 2'050);
    expect_matches(sizes, {{&sequence, 2'050, 1'840, {800, 16, 1'024}}});
  }
}

// The score of one key towers over the others: a mistake in the running maximum shows.
TEST_P(CudaAttention, LargeScoresAnywhere) {
  const HeadSizes sizes{2, 1, 128};
  for (const int64_t peak : {0, 1, 63, 64, 127, 128, 200}) {
    Random random(260 + static_cast<uint64_t>(peak));
    SCOPED_TRACE(random.seed());
    Sequence sequence = random_sequence(random, DType::kBf16, sizes, 257);
    for (int64_t d = 0; d < 128; ++d) sequence.k.set(peak * 128 + d, 4 * sequence.q.at((256 * 2) * 128 + d));
    expect_matches(sizes, {{&sequence, 257, 0, {}}});
  }
}

TEST_P(CudaAttention, ASequenceHasTheSameBitsWhateverIsBesideIt) {
  for (const HeadSizes& sizes : head_sizes()) {
    Random random(280);
    SCOPED_TRACE(random.seed());
    std::vector<Sequence> sequences;
    for (const int64_t tokens : {1, 33, 64, 100, 257, 400})
      sequences.push_back(random_sequence(random, DType::kBf16, sizes, tokens));
    std::vector<Cut> cuts;
    for (const Sequence& sequence : sequences) cuts.push_back({&sequence, sequence.tokens(), 0, {}});
    const HostTensor all = run(sizes, cuts);
    const HostTensor in_place = run(sizes, cuts, false, true);
    EXPECT_TRUE(same_bytes(in_place.bytes(), all.bytes()));
    int64_t row = 0;
    for (const Cut& cut : cuts) {
      EXPECT_TRUE(same_bytes(run(sizes, {cut}).bytes(), all.row_bytes(row, cut.tokens))) << cut.tokens;
      row += cut.tokens;
    }
  }
}

TEST_P(CudaAttention, BitsDoNotDependOnWhatWasCached) {
  for (const HeadSizes& sizes : head_sizes()) {
    Random random(290);
    SCOPED_TRACE(random.seed());
    const Sequence sequence = random_sequence(random, DType::kBf16, sizes, 333);
    const HostTensor whole = run(sizes, {{&sequence, 333, 0, {}}});
    for (const int64_t cached : {16, 48, 64, 112, 128, 144, 256, 320}) {
      for (const std::vector<int32_t>& extents : {std::vector<int32_t>{}, {16, 16, 32}, {128, 128}}) {
        const HostTensor rest = run(sizes, {{&sequence, 333, cached, extents}});
        EXPECT_TRUE(same_bytes(rest.bytes(), whole.row_bytes(cached, 333 - cached))) << cached;
      }
      // The cached tokens are the fresh ones of the sequence before, in the same step.
      const HostTensor both = run(sizes, {{&sequence, cached, 0, {}}, {&sequence, 333, cached, {}}}, true);
      EXPECT_TRUE(same_bytes(both.bytes(), whole.bytes())) << cached;
    }
  }
}

TEST_P(CudaAttention, NoTokens) {
  const HeadSizes sizes{2, 1, 64};
  EXPECT_EQ(run(sizes, {}).elements(), 0);
}

}  // namespace
}  // namespace zp::test
