// However a step gets tokens and experts together, logits have the bits of the resident run on one rank.
#include <gtest/gtest.h>

#include <map>

#include "tests/engine/ranks_under_test.h"
#include "tests/support/errors.h"
#include "zp/engine/calibration.h"

namespace zp {
namespace {

using test::bits_of;
using test::expect_error;
using test::RanksUnderTest;
using test::step_of;
using Bits = std::vector<uint32_t>;
using Sequences = std::vector<std::vector<int32_t>>;

const std::filesystem::path kRoot = ZP_SOURCE_DIR;

EngineConfig config_of(const char* model, ComputeType compute) {
  EngineConfig config;
  config.model = kRoot / model;
  config.threads = 1;
  config.compute = compute;
  config.step_tokens = 64;
  config.chunk_tokens = 24;
  config.max_context_tokens = 64;
  config.kv_cache_bytes = 0;
  return config;
}

// 17 and 5 tokens are one chunk, all together are not.
Sequences sequences(int32_t vocabulary) {
  Sequences all;
  for (const size_t length : {17, 40, 5}) {
    std::vector<int32_t>& ids = all.emplace_back();
    for (size_t i = 0; i < length; ++i)
      ids.push_back(static_cast<int32_t>((i * 31 + length * 7) % static_cast<size_t>(vocabulary)));
  }
  return all;
}

// The bits of a small step, a large one, and another small one, on one rank with all experts.
const std::vector<Bits>& resident_bits(const char* model, ComputeType compute) {
  static std::map<std::pair<std::string, ComputeType>, std::vector<Bits>> known;
  std::vector<Bits>& bits = known[{model, compute}];
  if (!bits.empty()) return bits;
  EngineConfig config = config_of(model, compute);
  config.experts.mode = ExpertMode::kResident;
  RanksUnderTest ranks(config);
  const int32_t vocabulary = ranks.shape().vocabulary;
  const Sequences all = sequences(vocabulary);
  bits.push_back(bits_of(ranks.run(0, step_of(std::span(&all[0], 1), vocabulary))));
  bits.push_back(bits_of(ranks.run(0, step_of(all, vocabulary))));
  bits.push_back(bits_of(ranks.run(0, step_of(std::span(&all[2], 1), vocabulary))));
  return bits;
}

struct Case {
  const char* model;
  ComputeType compute;
  ExpertMode experts;
  int32_t ranks;
  BelowThreshold below;
  int32_t slots;
};

StepMode mode_of(BelowThreshold below) {
  return below == BelowThreshold::kFetchRouted ? StepMode::kFetchRouted : StepMode::kSendActivations;
}

// Steps of more than a chunk gather all, whatever is asked for.
void expect_resident_bits(const Case& c) {
  EngineConfig config = config_of(c.model, c.compute);
  config.ranks = c.ranks;
  config.experts.mode = c.experts;
  config.experts.below_threshold = c.below;
  config.experts.slots = c.slots;
  config.experts.slice_bytes = 5000;
  RanksUnderTest ranks(config, [](EngineSetup& setup) { setup.streaming.poison = true; });
  const int32_t vocabulary = ranks.shape().vocabulary;
  const Sequences all = sequences(vocabulary);
  const std::vector<Bits>& expected = resident_bits(c.model, c.compute);
  const auto make_step = [&](size_t i) {
    return i == 1 ? step_of(all, vocabulary) : step_of(std::span(&all[i], 1), vocabulary);
  };
  // All ranks at once; small and large steps in turn, so that modes change from step to step.
  for (int32_t round = 0; round < 2; ++round) {
    for (int32_t r = 0; r < c.ranks; ++r)
      for (const size_t i : {0, 1}) ranks.start(r, make_step(i));
    for (int32_t r = 0; r < c.ranks; ++r) {
      for (const size_t i : {0, 1}) {
        const StepReport report = ranks.report(r);
        ASSERT_FALSE(report.failure);
        EXPECT_EQ(bits_of(report.result), expected[i]) << "rank " << r << ", step " << i;
        if (i == 1 || c.below != BelowThreshold::kAuto) {
          EXPECT_EQ(report.mode, i == 1 ? StepMode::kGatherAll : mode_of(c.below)) << "step " << i;
        }
      }
      EXPECT_EQ(bits_of(ranks.run(r, make_step(2))), expected[2]) << "rank " << r;
    }
  }
}

constexpr const char* kTiny = "tests/data/models/moe_f32";
constexpr const char* kDemo = "models/demo-moe";

TEST(StepModes, FetchingWhatIsRoutedToKeepsTheBits) {
  for (const int32_t slots : {2, 3, 4}) {
    expect_resident_bits({kTiny, ComputeType::kF32, ExpertMode::kGathered, 3, BelowThreshold::kFetchRouted, slots});
    expect_resident_bits({kTiny, ComputeType::kF32, ExpertMode::kHost, 2, BelowThreshold::kFetchRouted, slots});
  }
  expect_resident_bits({kDemo, ComputeType::kBf16, ExpertMode::kGathered, 2, BelowThreshold::kFetchRouted, 3});
  expect_resident_bits({kDemo, ComputeType::kBf16, ExpertMode::kHost, 1, BelowThreshold::kFetchRouted, 2});
}

TEST(StepModes, SendingActivationsKeepsTheBits) {
  for (const int32_t ranks : {2, 3, 4})
    expect_resident_bits({kTiny, ComputeType::kF32, ExpertMode::kGathered, ranks, BelowThreshold::kSendActivations, 2});
  expect_resident_bits({kDemo, ComputeType::kBf16, ExpertMode::kGathered, 3, BelowThreshold::kSendActivations, 2});
  expect_resident_bits({kDemo, ComputeType::kF32, ExpertMode::kGathered, 2, BelowThreshold::kSendActivations, 3});
}

TEST(StepModes, ChoosingByCostKeepsTheBits) {
  expect_resident_bits({kTiny, ComputeType::kF32, ExpertMode::kGathered, 3, BelowThreshold::kAuto, 2});
  expect_resident_bits({kDemo, ComputeType::kBf16, ExpertMode::kGathered, 2, BelowThreshold::kAuto, 3});
  expect_resident_bits({kTiny, ComputeType::kF32, ExpertMode::kHost, 1, BelowThreshold::kAuto, 2});
  expect_resident_bits({kTiny, ComputeType::kF32, ExpertMode::kResident, 2, BelowThreshold::kAuto, 2});
}

TEST(StepModes, AModeThatExpertsLeaveNoUseForIsRefusedByName) {
  const ModelFiles files(kRoot / kTiny);
  EngineConfig config = config_of(kTiny, ComputeType::kF32);
  config.ranks = 2;
  config.experts.below_threshold = BelowThreshold::kSendActivations;
  config.experts.mode = ExpertMode::kHost;
  expect_error([&] { (void)make_setup(config, files); }, ErrorCode::kInvalidArgument,
               {"send-activations", "in host memory", "gathered"});
  config.experts.mode = ExpertMode::kGathered;
  config.ranks = 1;
  expect_error([&] { (void)make_setup(config, files); }, ErrorCode::kInvalidArgument, {"send-activations"});
  config.experts.below_threshold = BelowThreshold::kFetchRouted;
  expect_error([&] { (void)make_setup(config, files); }, ErrorCode::kInvalidArgument,
               {"fetch-routed", "resident on every rank"});
  config.ranks = 2;
  config.experts.mode = ExpertMode::kHybrid;
  config.experts.rank_bytes = make_setup(config_of(kTiny, ComputeType::kF32), files).blob_bytes * 8;
  expect_error([&] { (void)make_setup(config, files); }, ErrorCode::kInvalidArgument, {"fetch-routed"});
  config.strategy = "dp+ep";
  EXPECT_FALSE(validate(config).empty());
}

TEST(StepModes, WhatSendingTakesIsPlannedAndLeftOutWhenItDoesNotFit) {
  const ModelFiles files(kRoot / kTiny);
  EngineConfig config = config_of(kTiny, ComputeType::kF32);
  config.ranks = 2;
  config.experts.mode = ExpertMode::kGathered;
  const auto planned = [](const EngineSetup& setup) -> uint64_t {
    for (const MemoryItem& item : setup.memory.rank.items)
      if (item.consumer == "activations sent to experts") return item.bytes;
    return 0;
  };
  const EngineSetup setup = make_setup(config, files);
  // 24 tokens * 3 experts: 72 rows of 40. Sender: rows out, results, ids and ones; server: ones, and two of rows in,
  // ids and results; besides, the scratch memory of its operations.
  const uint64_t buffers = 72 * (40 * 4 + 40 * 4 + 4 + 4) + 72 * 4 + 2 * 72 * (40 * 4 + 4 + 40 * 4);
  EXPECT_EQ(setup.step_modes.send_tokens, 24);
  EXPECT_GT(planned(setup), buffers);
  EXPECT_LT(planned(setup), buffers + (uint64_t{8} << 20)) << "a thread's scratch memory is 4 MiB";
  config.experts.below_threshold = BelowThreshold::kFetchRouted;
  EXPECT_EQ(planned(make_setup(config, files)), 0U);
  config.experts.below_threshold = BelowThreshold::kAuto;
  config.memory_limit_bytes =
      setup.memory.host.total_bytes() + 2 * (setup.memory.rank.total_bytes() - planned(setup) / 2);
  EXPECT_EQ(make_setup(config, files).step_modes.send_tokens, 0);
}

// Rank 1's link fails while it serves rank 0, which runs its step once more without it; later steps send nothing.
TEST(StepModes, AnOwnerThatFailsIsDoneWithout) {
  EngineConfig config = config_of(kTiny, ComputeType::kF32);
  config.ranks = 3;
  config.experts.mode = ExpertMode::kGathered;
  config.experts.below_threshold = BelowThreshold::kSendActivations;
  config.experts.peer_link.latency_us = 10;
  RanksUnderTest ranks(config);
  const int32_t vocabulary = ranks.shape().vocabulary;
  const Sequences all = sequences(vocabulary);
  const auto small = [&] { return step_of(std::span(&all[0], 1), vocabulary); };
  const Bits expected = bits_of(ranks.run(0, small()));
  ranks.setup().ranks[1].device.peer_link->fail_after(0);
  for (const int32_t rank : {0, 2, 0}) {
    ranks.start(rank, small());
    const StepReport report = ranks.report(rank);
    ASSERT_FALSE(report.failure) << "rank " << rank;
    EXPECT_EQ(report.mode, StepMode::kGatherAll);
    EXPECT_EQ(bits_of(report.result), expected);
  }
  // The broken link's own rank gets its first layers, which are there, and then fails by its own name.
  bool failed = false;
  for (int32_t i = 0; i < 3 && !failed; ++i) {
    ranks.start(1, small());
    const StepReport report = ranks.report(1);
    failed = report.failure != nullptr;
    if (failed)
      expect_error([&] { std::rethrow_exception(report.failure); }, ErrorCode::kDevice, {"the peer link of rank 1"});
  }
  EXPECT_TRUE(failed);
}

// A rank whose own link fails while it sends fails itself, and takes no other along.
TEST(StepModes, ASenderThatFailsFailsAlone) {
  EngineConfig config = config_of(kTiny, ComputeType::kF32);
  config.ranks = 2;
  config.experts.mode = ExpertMode::kGathered;
  config.experts.below_threshold = BelowThreshold::kSendActivations;
  config.experts.peer_link.latency_us = 10;
  RanksUnderTest ranks(config);
  const int32_t vocabulary = ranks.shape().vocabulary;
  const Sequences all = sequences(vocabulary);
  const Bits expected = bits_of(ranks.run(1, step_of(std::span(&all[0], 1), vocabulary)));
  ranks.setup().ranks[0].device.peer_link->fail_after(0);
  bool failed = false;
  for (int32_t i = 0; i < 4 && !failed; ++i) {
    ranks.start(0, step_of(all, vocabulary));  // gathers, over its broken link
    failed = ranks.report(0).failure != nullptr;
  }
  ASSERT_TRUE(failed);
  for (int32_t i = 0; i < 2; ++i)
    EXPECT_EQ(bits_of(ranks.run(1, step_of(std::span(&all[0], 1), vocabulary))), expected);
}

TEST(Calibration, FitsALineThroughTwoSteps) {
  const Calibration fit = fit_compute({.small_flops = 100, .small_seconds = 2, .large_flops = 500, .large_seconds = 4});
  EXPECT_DOUBLE_EQ(fit.flops_per_second, 200);
  EXPECT_DOUBLE_EQ(fit.step_seconds, 1.5);
  // Times that no such line gives: in proportion to the larger step.
  for (const double small_seconds : {0.1, 4.0, 5.0}) {
    const Calibration rough =
        fit_compute({.small_flops = 100, .small_seconds = small_seconds, .large_flops = 500, .large_seconds = 4});
    EXPECT_DOUBLE_EQ(rough.flops_per_second, 125);
    EXPECT_EQ(rough.step_seconds, 0);
  }
  EXPECT_GT(fit_compute({.large_flops = 1}).flops_per_second, 1e300);
}

TEST(Calibration, CountsWhatAStepDependsOn) {
  ForwardStep step;
  step.ids.assign(7, 0);
  step.head_rows = {4, 6};
  step.sequences.push_back({.row = 0, .tokens = 5, .prefix = {}});
  step.sequences.push_back({.row = 5, .tokens = 2, .prefix = {{.index = 3, .tokens = 32}, {.index = 9, .tokens = 16}}});
  const StepLoad load = load_of(step);
  EXPECT_EQ(load.tokens, 7);
  EXPECT_EQ(load.head_rows, 2);
  EXPECT_EQ(load.attention_pairs, (1 + 2 + 3 + 4 + 5) + (49 + 50));
}

}  // namespace
}  // namespace zp
