// Parts of steps: together they are the step, whatever is reused and kept.
#include "zp/parallel/step_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace zp {
namespace {

using ::testing::ElementsAre;
using Place = KvRun::Place;

constexpr int32_t kBlock = 16;

// Sequences of the given lengths without prefixes; one head row each, with as many candidates as its number.
ForwardStep step_of(const std::vector<int32_t>& lengths) {
  ForwardStep step;
  step.candidate_offsets.push_back(0);
  for (size_t i = 0; i < lengths.size(); ++i) {
    step.sequences.push_back({static_cast<int64_t>(step.ids.size()), lengths[i], {}});
    for (int32_t t = 0; t < lengths[i]; ++t) {
      step.ids.push_back(static_cast<int32_t>(step.ids.size()));
      step.positions.push_back(t);
    }
    step.head_rows.push_back(static_cast<int64_t>(step.ids.size()) - 1);
    for (size_t c = 0; c < i; ++c) step.candidates.push_back(static_cast<int32_t>(10 * i + c));
    step.candidate_offsets.push_back(static_cast<int64_t>(step.candidates.size()));
  }
  return step;
}

// The result that a rank would give, made of what it was asked.
ForwardResult answer(const ForwardStep& step) {
  ForwardResult result;
  for (const int32_t candidate : step.candidates) result.logits.push_back(static_cast<float>(candidate));
  for (const int64_t row : step.head_rows)
    result.log_sum_exp.push_back(static_cast<float>(step.ids[static_cast<size_t>(row)]));
  return result;
}

TEST(StepParts, HeadsComeTogetherAgain) {
  const ForwardStep step = step_of({3, 1, 4, 1, 5});
  std::vector<int32_t> owners(step.ids.size());
  for (size_t i = 0; i < owners.size(); ++i) owners[i] = static_cast<int32_t>(i % 3);
  const std::vector<HeadPart> parts = split_heads(step, owners, 3);
  ForwardResult whole;
  for (const HeadPart& part : parts) merge_heads(step, part, answer(with_heads(step, part)), whole);
  EXPECT_EQ(whole.logits, answer(step).logits);
  EXPECT_EQ(whole.log_sum_exp, answer(step).log_sum_exp);
}

TEST(StepParts, MicroBatchesComeTogetherAgain) {
  const ForwardStep step = step_of({30, 10, 5, 25, 7, 40, 3});
  for (const int32_t count : {1, 2, 3, 7, 20}) {
    const std::vector<MicroBatch> batches = split_step(step, count, kBlock);
    EXPECT_LE(std::ssize(batches), count);
    ForwardResult whole;
    std::vector<int32_t> ids;
    for (const MicroBatch& batch : batches) {
      ids.insert(ids.end(), batch.step.ids.begin(), batch.step.ids.end());
      EXPECT_EQ(batch.step.positions.size(), batch.step.ids.size());
      merge_heads(step, batch.heads, answer(batch.step), whole);
    }
    EXPECT_EQ(ids, step.ids);
    EXPECT_EQ(whole.logits, answer(step).logits);
    EXPECT_EQ(whole.log_sum_exp, answer(step).log_sum_exp);
  }
  EXPECT_EQ(split_step(step, 2, kBlock).size(), 2U);
  EXPECT_TRUE(split_step(ForwardStep{}, 2, kBlock).empty());
}

TEST(StepParts, ReusedRowsThatAreNotKeptStayWithTheirReader) {
  ForwardStep step = step_of({40, 20, 20, 30});
  step.sequences[2].prefix = {{Place::kStep, 0, 32}};
  const std::vector<MicroBatch> batches = split_step(step, 8, kBlock);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].step.sequences.size(), 3U);
  EXPECT_EQ(batches[0].step.sequences[2].prefix[0].index, 0);
}

TEST(StepParts, ReusedRowsThatAreKeptAreReadFromThePool) {
  ForwardStep step = step_of({40, 20, 20});
  step.keep = {{.row = 0, .tokens = 32, .block = 7}, {.row = 40, .tokens = 16, .block = 3}};
  step.sequences[1].prefix = {{Place::kPool, 5, 16}, {Place::kStep, 0, 32}};
  step.sequences[2].prefix = {{Place::kStep, 40, 16}};
  const std::vector<MicroBatch> batches = split_step(step, 2, kBlock);
  ASSERT_EQ(batches.size(), 2U);
  const ForwardStep& second = batches[1].step;
  ASSERT_EQ(second.sequences.size(), 2U);
  const auto run_is = [](Place place, int64_t index, int32_t tokens) {
    return ::testing::AllOf(::testing::Field(&KvRun::place, place), ::testing::Field(&KvRun::index, index),
                            ::testing::Field(&KvRun::tokens, tokens));
  };
  EXPECT_THAT(second.sequences[0].prefix, ElementsAre(run_is(Place::kPool, 5, 16), run_is(Place::kPool, 7, 32)));
  EXPECT_THAT(second.sequences[1].prefix, ElementsAre(run_is(Place::kStep, 0, 16)));
  ASSERT_EQ(second.keep.size(), 1U);
  EXPECT_EQ(second.keep[0].row, 0);
  EXPECT_EQ(second.keep[0].block, 3);
}

}  // namespace
}  // namespace zp
