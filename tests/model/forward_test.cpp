// Whole-model logits: against transformers, and bit for bit however a sequence is batched, chunked or cached.
#include "zp/model/forward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/model/model_under_test.h"

namespace zp {
namespace {

using test::kTestBlockTokens;
using test::LastLogits;
using test::ModelOptions;
using test::ModelUnderTest;
using Part = ModelUnderTest::Part;

const std::filesystem::path kModels = std::filesystem::path(ZP_SOURCE_DIR) / "tests/data/models";
constexpr const char* kNames[] = {"moe_f32", "mixed_layers_bf16", "tied_sharded_f16", "aligned_bf16"};

struct Expected {
  std::vector<int32_t> ids;
  std::vector<double> logits;
};

std::vector<Expected> read_expected(const std::string& name) {
  std::ifstream file(kModels / name / "expected.json");
  const auto document = nlohmann::json::parse(file);
  std::vector<Expected> all;
  for (const auto& entry : document.at("sequences"))
    all.push_back({entry.at("ids").get<std::vector<int32_t>>(), entry.at("logits").get<std::vector<double>>()});
  EXPECT_EQ(all.size(), 8U) << name;
  return all;
}

// Largest ||logits - expected|| / ||expected||. Every operation rounds its result to eps(A) relative to the sums it
// makes; a layer has about 10 of them in a row and random errors add up as the root of their number, so
// sqrt(10 * layers) * eps, and 8 of that for the gain of norms and softmax. eps is 2^-24 (f32) or 2^-9 (bf16).
double tolerance_of(DType activation, int32_t layers) {
  const double eps = activation == DType::kBf16 ? 0x1p-9 : 0x1p-24;
  return 8 * std::sqrt(10.0 * layers) * eps;
}

class ForwardTest : public ::testing::TestWithParam<std::tuple<const char*, ModelOptions>> {};

std::string name_of(const ModelOptions& options) {
  return std::string(options.reference ? "reference_" : "cpu_") + std::string(to_string(*options.activation)) + "_" +
         std::to_string(options.threads);
}

TEST_P(ForwardTest, LogitsAgreeWithTransformers) {
  const auto& [name, options] = GetParam();
  ModelUnderTest model(kModels / name, options);
  const double tolerance = tolerance_of(*options.activation, model.shape().layers);
  double worst = 0;
  for (const Expected& expected : read_expected(name)) {
    const LastLogits actual = model.run_alone(expected.ids);
    double difference = 0;
    double norm = 0;
    double sum = 0;
    const double largest = *std::max_element(expected.logits.begin(), expected.logits.end());
    for (size_t i = 0; i < expected.logits.size(); ++i) {
      difference += std::pow(actual.logits[i] - expected.logits[i], 2);
      norm += std::pow(expected.logits[i], 2);
      sum += std::exp(expected.logits[i] - largest);
    }
    ASSERT_GT(norm, 1.0) << "the fixture says nothing";
    const double relative = std::sqrt(difference / norm);
    worst = std::max(worst, relative);
    EXPECT_LE(relative, tolerance) << expected.ids.size() << " tokens";
    const double scale = std::sqrt(norm / static_cast<double>(expected.logits.size()));
    EXPECT_NEAR(actual.log_sum_exp, largest + std::log(sum), 4 * tolerance * scale + 1e-6);
  }
  std::cout << "largest relative difference " << worst << ", tolerance " << tolerance << "\n";
}

// Each logit and log-sum-exp, as bits.
::testing::AssertionResult same_bits(const LastLogits& a, const LastLogits& b) {
  for (size_t i = 0; i < a.logits.size(); ++i)
    if (std::bit_cast<uint32_t>(a.logits[i]) != std::bit_cast<uint32_t>(b.logits[i]))
      return ::testing::AssertionFailure() << "logit " << i << ": " << a.logits[i] << " and " << b.logits[i];
  if (std::bit_cast<uint32_t>(a.log_sum_exp) != std::bit_cast<uint32_t>(b.log_sum_exp))
    return ::testing::AssertionFailure() << "log-sum-exp " << a.log_sum_exp << " and " << b.log_sum_exp;
  return ::testing::AssertionSuccess();
}

TEST_P(ForwardTest, ASequenceHasTheSameBitsAloneAndInAnyBatch) {
  const auto& [name, options] = GetParam();
  ModelUnderTest model(kModels / name, options);
  const std::vector<Expected> sequences = read_expected(name);
  std::vector<LastLogits> alone;
  std::vector<Part> parts;
  for (const Expected& sequence : sequences) {
    alone.push_back(model.run_alone(sequence.ids));
    parts.push_back({sequence.ids, 0, {}});
  }
  const std::vector<LastLogits> batched = model.run(parts);
  std::reverse(parts.begin(), parts.end());
  const std::vector<LastLogits> reversed = model.run(parts);
  for (size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_TRUE(same_bits(alone[i], batched[i])) << sequences[i].ids.size() << " tokens";
    EXPECT_TRUE(same_bits(alone[i], reversed[sequences.size() - 1 - i])) << sequences[i].ids.size() << " tokens";
  }
}

TEST_P(ForwardTest, ChunksOfAnySizeGiveTheSameBits) {
  const auto& [name, options] = GetParam();
  const std::vector<int32_t> ids = read_expected(name).back().ids;
  ModelUnderTest model(kModels / name, options);
  const LastLogits whole = model.run_alone(ids);
  for (const int64_t chunk : {1, 7, 33, 1000}) {
    ModelOptions chunked = options;
    chunked.chunk_tokens = chunk;
    ModelUnderTest other(kModels / name, chunked);
    EXPECT_TRUE(same_bits(whole, other.run_alone(ids))) << "chunks of " << chunk;
  }
}

// Keeps the first `blocks` blocks in scattered pool blocks, then computes the rest in a later step.
TEST_P(ForwardTest, ACachedPrefixGivesTheSameBitsAsAColdRun) {
  const auto& [name, options] = GetParam();
  ModelUnderTest model(kModels / name, options);
  const std::vector<int32_t> ids = read_expected(name).back().ids;
  const LastLogits cold = model.run_alone(ids);
  const auto whole_blocks = static_cast<int32_t>(ids.size() - 1) / kTestBlockTokens;
  for (int32_t blocks = 1; blocks <= whole_blocks; ++blocks) {
    // Blocks 0, 1 side by side, the rest backwards from the pool's end.
    std::vector<KeepRun> keep;
    std::vector<KvRun> prefix;
    for (int32_t b = 0; b < blocks; ++b) {
      const int64_t place = b < 2 ? b : 63 - b;
      keep.push_back({b * kTestBlockTokens, kTestBlockTokens, place});
      prefix.push_back({KvRun::Place::kPool, place, kTestBlockTokens});
    }
    const auto begin = blocks * kTestBlockTokens;
    const Part head{std::span(ids).first(static_cast<size_t>(begin)), 0, {}};
    (void)model.run(std::span(&head, 1), keep);
    const Part rest{ids, begin, prefix};
    EXPECT_TRUE(same_bits(cold, model.run(std::span(&rest, 1)).front())) << blocks << " blocks cached";
  }
}

TEST_P(ForwardTest, APrefixComputedInTheSameStepGivesTheSameBits) {
  const auto& [name, options] = GetParam();
  ModelUnderTest model(kModels / name, options);
  const std::vector<int32_t> ids = read_expected(name).back().ids;
  std::vector<int32_t> sibling(ids.begin(), ids.begin() + 96);
  for (int32_t i = 0; i < 21; ++i) sibling.push_back((i * 37 + 5) % model.shape().vocabulary);
  const LastLogits cold = model.run_alone(ids);
  const LastLogits sibling_cold = model.run_alone(sibling);
  const std::vector<int32_t> other = read_expected(name)[5].ids;
  const std::vector<Part> parts = {
      {other, 0, {}},
      {ids, 0, {}},
      {sibling, 96, {{KvRun::Place::kStep, static_cast<int64_t>(other.size()), 96}}},
  };
  const std::vector<LastLogits> together = model.run(parts);
  EXPECT_TRUE(same_bits(cold, together[1]));
  EXPECT_TRUE(same_bits(sibling_cold, together[2]));
}

// The specification, and the fast operations on one thread and on more than there are cores.
const ModelOptions kImplementations[] = {
    {.activation = DType::kF32, .reference = true}, {.activation = DType::kBf16, .reference = true},
    {.activation = DType::kF32, .threads = 1},      {.activation = DType::kBf16, .threads = 1},
    {.activation = DType::kBf16, .threads = 3},
};

INSTANTIATE_TEST_SUITE_P(Models, ForwardTest,
                         ::testing::Combine(::testing::ValuesIn(kNames), ::testing::ValuesIn(kImplementations)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" + name_of(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace zp
