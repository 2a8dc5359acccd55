// Wherever experts come from, on however many ranks, logits have the bits of the resident run on one rank.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "tests/engine/ranks_under_test.h"

namespace zp {
namespace {

using test::bits_of;
using test::RanksUnderTest;
using test::step_of;
using Bits = std::vector<uint32_t>;
using Sequences = std::vector<std::vector<int32_t>>;

const std::filesystem::path kRoot = ZP_SOURCE_DIR;

// 7 and 8 experts in 3 and 6 layers; half of the second's experts fit on ranks in hybrid mode.
constexpr std::array<const char*, 2> kModels = {"tests/data/models/moe_f32", "models/demo-moe"};

Sequences sequences(int32_t vocabulary) {
  Sequences all;
  for (const size_t length : {1, 17, 40, 5}) {
    std::vector<int32_t>& ids = all.emplace_back();
    for (size_t i = 0; i < length; ++i)
      ids.push_back(static_cast<int32_t>((i * 31 + length * 7) % static_cast<size_t>(vocabulary)));
  }
  return all;
}

EngineConfig config_of(const char* model) {
  EngineConfig config;
  config.model = kRoot / model;
  config.threads = 1;
  config.compute = ComputeType::kF32;
  config.step_tokens = 64;
  config.chunk_tokens = 24;
  config.max_context_tokens = 64;
  config.kv_cache_bytes = 0;
  config.experts.below_threshold = BelowThreshold::kGatherAll;  // step_mode_test has the others
  return config;
}

// What one rank with all experts makes of each sequence alone.
const std::vector<Bits>& resident_bits(const char* model) {
  static std::map<std::string, std::vector<Bits>> known;
  std::vector<Bits>& bits = known[model];
  if (!bits.empty()) return bits;
  EngineConfig config = config_of(model);
  config.experts.mode = ExpertMode::kResident;
  RanksUnderTest ranks(config);
  for (const auto& ids : sequences(ranks.shape().vocabulary))
    bits.push_back(bits_of(ranks.run(0, step_of(std::span(&ids, 1), ranks.shape().vocabulary))));
  return bits;
}

// The bits of each sequence of a step.
std::vector<Bits> split(const ForwardResult& result, int32_t vocabulary) {
  std::vector<Bits> all;
  for (size_t i = 0; i < result.log_sum_exp.size(); ++i) {
    const auto first = result.logits.begin() + static_cast<std::ptrdiff_t>(i) * vocabulary;
    all.push_back(bits_of({{first, first + vocabulary}, {result.log_sum_exp[i]}}));
  }
  return all;
}

using Param = std::tuple<const char*, ExpertMode, int32_t /*ranks*/, int32_t /*slots*/>;
class ExpertEquality : public ::testing::TestWithParam<Param> {};

TEST_P(ExpertEquality, LogitsHaveTheBitsOfOneRankWithAllExperts) {
  const auto& [model, mode, rank_count, slots] = GetParam();
  EngineConfig config = config_of(model);
  config.ranks = rank_count;
  config.experts.mode = mode;
  config.experts.slots = slots;
  config.experts.window = slots;
  config.experts.slice_bytes = 5000;
  const ModelFiles files(config.model);
  const ModelShape& shape = files.shape();
  // Room for the first layer and half of an Nth of the others.
  if (mode == ExpertMode::kHybrid) {
    EngineConfig any = config;
    any.experts.mode = ExpertMode::kResident;
    config.experts.rank_bytes =
        make_setup(any, files).blob_bytes *
        static_cast<uint64_t>(shape.experts + shape.experts * (shape.layers - 1) / (2 * rank_count));
  }
  RanksUnderTest ranks(config, [](EngineSetup& setup) { setup.streaming.poison = true; });
  const std::vector<Bits>& expected = resident_bits(model);
  const Sequences all = sequences(shape.vocabulary);
  const Sequences backwards(all.rbegin(), all.rend());
  // All ranks at once: a batch, the same backwards, and a single sequence, each rank another one.
  for (int32_t r = 0; r < rank_count; ++r) {
    ranks.start(r, step_of(all, shape.vocabulary));
    ranks.start(r, step_of(backwards, shape.vocabulary));
  }
  for (int32_t r = 0; r < rank_count; ++r) {
    for (const bool reversed : {false, true}) {
      const StepReport report = ranks.report(r);
      ASSERT_FALSE(report.failure);
      std::vector<Bits> bits = split(report.result, shape.vocabulary);
      if (reversed) std::ranges::reverse(bits);
      EXPECT_EQ(bits, expected) << "rank " << r;
    }
    const size_t one = static_cast<size_t>(r) % all.size();
    const ForwardResult single = ranks.run(r, step_of(std::span(&all[one], 1), shape.vocabulary));
    EXPECT_EQ(bits_of(single), expected[one]) << "rank " << r;
  }
}

std::string name_of(ExpertMode mode) {
  switch (mode) {
    case ExpertMode::kAuto: return "Auto";
    case ExpertMode::kResident: return "Resident";
    case ExpertMode::kGathered: return "Gathered";
    case ExpertMode::kHost: return "Host";
    case ExpertMode::kHybrid: return "Hybrid";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(All, ExpertEquality,
                         ::testing::Combine(::testing::ValuesIn(kModels),
                                            ::testing::Values(ExpertMode::kResident, ExpertMode::kGathered,
                                                              ExpertMode::kHost, ExpertMode::kHybrid,
                                                              ExpertMode::kAuto),
                                            ::testing::Values(1, 2, 3, 4, 8), ::testing::Values(2, 3, 4)),
                         [](const auto& test) {
                           return std::filesystem::path(std::get<0>(test.param)).filename().string().substr(0, 3) +
                                  name_of(std::get<1>(test.param)) + std::to_string(std::get<2>(test.param)) + "Ranks" +
                                  std::to_string(std::get<3>(test.param)) + "Slots";
                         });

}  // namespace
}  // namespace zp
