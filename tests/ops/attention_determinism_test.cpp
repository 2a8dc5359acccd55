// A row of attention has the same bits wherever its prefix is cut, whatever else is in the step, on any number of
// threads.
#include "tests/ops/attention_case.h"

namespace zp::test {
namespace {

class AttentionDeterminism : public OpsTest {
 protected:
  [[nodiscard]] bool is_reference() const { return !GetParam().isa.has_value(); }
};
ZP_FOR_ALL_IMPLEMENTATIONS(AttentionDeterminism);

// Expects the fresh rows of `cut`, run as sequence `index` of a batch, to have the bits of the whole sequence's run.
void expect_rows(const HostTensor& out, const AttentionBatch& batch, size_t index, const Cut& cut,
                 const HostTensor& whole) {
  const int64_t fresh = cut.tokens - cut.cached;
  EXPECT_TRUE(same_bytes(out.row_bytes(batch.first_row(index), fresh), whole.row_bytes(cut.cached, fresh)))
      << "tokens " << cut.tokens << ", cached " << cut.cached;
}

TEST_P(AttentionDeterminism, WhereverThePrefixIsCut) {
  const std::vector<std::vector<int32_t>> extent_lengths = {
      {}, {16, 16, 16, 16, 16, 16, 16}, {48, 128}, {128}, {112, 32}};
  uint64_t seed = 1;
  for (const HeadSizes& sizes : {HeadSizes{8, 2, 16}, HeadSizes{4, 1, 64}, HeadSizes{3, 3, 10}}) {
    Random random(seed++);
    SCOPED_TRACE(random.seed());
    const int64_t tokens = is_reference() ? 100 : 300;
    const Sequence sequence = random_sequence(random, activation(), sizes, tokens);
    Harness harness(GetParam());
    const HostTensor whole = AttentionBatch(sizes, activation(), {{&sequence, tokens, 0, {}}}).run(harness);
    for (int64_t cached = 0; cached < tokens; cached += kExtentGranule) {
      const auto& lengths = extent_lengths[static_cast<size_t>(cached / kExtentGranule) % extent_lengths.size()];
      const Cut cut{&sequence, tokens, cached, lengths};
      const AttentionBatch batch(sizes, activation(), {cut});
      expect_rows(batch.run(harness), batch, 0, cut, whole);
    }
  }
}

TEST_P(AttentionDeterminism, WhateverComesAfter) {
  const HeadSizes sizes{4, 2, 24};
  Random random(7);
  SCOPED_TRACE(random.seed());
  const int64_t tokens = is_reference() ? 70 : 140;
  const Sequence sequence = random_sequence(random, activation(), sizes, tokens);
  Harness harness(GetParam());
  const HostTensor whole = AttentionBatch(sizes, activation(), {{&sequence, tokens, 0, {}}}).run(harness);
  for (int64_t length = 1; length < tokens; length += is_reference() ? 9 : 1) {
    const Cut cut{&sequence, length, 0, {}};
    const AttentionBatch batch(sizes, activation(), {cut});
    expect_rows(batch.run(harness), batch, 0, cut, whole);
    // One fresh token over a cached prefix, as when a question's last token is computed.
    const Cut last{&sequence, length, (length - 1) / kExtentGranule * kExtentGranule, {64}};
    const AttentionBatch last_batch(sizes, activation(), {last});
    expect_rows(last_batch.run(harness), last_batch, 0, last, whole);
  }
}

TEST_P(AttentionDeterminism, WhoeverTheNeighboursAre) {
  const HeadSizes sizes{6, 2, 18};
  Random random(8);
  SCOPED_TRACE(random.seed());
  std::vector<Sequence> sequences;
  std::vector<HostTensor> wholes;
  Harness harness(GetParam());
  for (const int64_t tokens : {1, 16, 37, 64, 65, 130}) {
    sequences.push_back(random_sequence(random, activation(), sizes, tokens));
    wholes.push_back(AttentionBatch(sizes, activation(), {{&sequences.back(), tokens, 0, {}}}).run(harness));
    sequences.reserve(6);
  }
  for (int round = 0; round < (is_reference() ? 3 : 20); ++round) {
    std::vector<Cut> cuts;
    std::vector<size_t> which;
    for (const int64_t s : random.permutation(6)) {
      const int64_t tokens = sequences[static_cast<size_t>(s)].tokens();
      const int64_t cached = random.integer(0, (tokens - 1) / kExtentGranule) * kExtentGranule;
      cuts.push_back({&sequences[static_cast<size_t>(s)], tokens, cached, {32, 48}});
      which.push_back(static_cast<size_t>(s));
    }
    const AttentionBatch batch(sizes, activation(), cuts);
    const HostTensor out = batch.run(harness);
    for (size_t i = 0; i < cuts.size(); ++i) expect_rows(out, batch, i, cuts[i], wholes[which[i]]);
  }
}

TEST_P(AttentionDeterminism, HoweverManyThreads) {
  const HeadSizes sizes{8, 2, 32};
  Random random(9);
  SCOPED_TRACE(random.seed());
  const Sequence a = random_sequence(random, activation(), sizes, 150);
  const Sequence b = random_sequence(random, activation(), sizes, 90);
  const AttentionBatch batch(sizes, activation(), {{&a, 150, 32, {16}}, {&b, 90, 0, {}}});
  Implementation implementation = GetParam();
  implementation.threads = 1;
  Harness one(implementation);
  const HostTensor wanted = batch.run(one);
  for (const int32_t threads : {2, 5}) {
    implementation.threads = threads;
    Harness harness(implementation);
    EXPECT_TRUE(same_bytes(batch.run(harness).bytes(), wanted.bytes())) << threads;
  }
}

TEST_P(AttentionDeterminism, APrefixComputedInTheSameStep) {
  // Sequence 0 computes the prefix that sequence 1 reads straight from this step's k and v.
  const HeadSizes sizes{4, 2, 16};
  Random random(10);
  SCOPED_TRACE(random.seed());
  const Sequence sequence = random_sequence(random, activation(), sizes, 100);
  Harness harness(GetParam());
  const HostTensor whole = AttentionBatch(sizes, activation(), {{&sequence, 100, 0, {}}}).run(harness);
  const KvExtent shared{.k = sequence.k.view().data(), .v = sequence.v.view().data(), .tokens = 48};
  const std::vector<AttentionSequence> sequences = {{.row = 0, .tokens = 48, .prefix = {}},
                                                    {.row = 48, .tokens = 52, .prefix = {&shared, 1}}};
  HostTensor out(activation(), sequence.q.shape());
  AttentionBatch batch(sizes, activation(), {{&sequence, 100, 0, {}}});
  AttentionArgs args = batch.args(out.view());
  args.q = sequence.q.view();
  args.k = sequence.k.view();
  args.v = sequence.v.view();
  args.sequences = sequences;
  harness.ops().attention(harness.stream(), args);
  harness.finish();
  EXPECT_TRUE(same_bytes(out.bytes(), whole.bytes()));
}

}  // namespace
}  // namespace zp::test
