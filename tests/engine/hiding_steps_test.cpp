// Where experts are streamed, steps are planned large enough to hide that, as far as memory goes. Expected numbers are
// computed by hand from model cards and data/hardware.yaml.
#include "zp/engine/hiding_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "zp/engine/source.h"
#include "zp/engine/target_setup.h"
#include "zp/schedule/calibration_file.h"
#include "zp/shape/known_models.h"

namespace zp {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// Qwen3-30B-A3B: 48 layers of 128 experts, each 3 x 2048 x 768 x 2 bytes; so a layer of them is 1,207,959,552 bytes,
// which take 21.8833 ms at 55.2 GB/s. A token of a context of 4,096, in one layer and at the rates of the h200:
//   attention  4 x 32 x 128 x 4097 / 2            = 33,562,624 FLOPs at 634 TFLOP/s:  52.938 ns
//   dense      2 x 2048 x (2 x 32 + 2 x 4) x 128 + 2 x 2048 x 128
//                                                 = 38,273,024 FLOPs at 790 TFLOP/s:  48.447 ns
//   experts    8 x 6 x 2048 x 768                 = 75,497,472 FLOPs at 613 TFLOP/s: 123.161 ns
// together 224.546 ns. With gamma at 1.5 x 1.2, T is 1.8 x 21.8833 ms / 224.546 ns = 175,421.1 tokens.
constexpr int64_t kQwenTokens = 175422;
constexpr uint64_t kQwenBlobBytes = uint64_t{3} * 2048 * 768 * 2;

EngineSetup qwen_on_a_gpu(const ModelShape& shape, Placing placing) {
  EngineSetup setup;
  setup.ranks.emplace_back().device.kind = DeviceKind::kCuda;
  setup.blob_bytes = kQwenBlobBytes;
  setup.placement = Placement(shape, {.placing = placing, .blob_bytes = setup.blob_bytes});
  return setup;
}

TEST(HidingSteps, AreWhatTheThresholdTakesOnAnH200) {
  const ModelShape shape = find_known_model("Qwen3-30B-A3B")->shape;
  const EngineSetup setup = qwen_on_a_gpu(shape, Placing::kHost);
  EngineConfig config;
  config.chunk_tokens = 16384;
  EXPECT_EQ(hiding_step_tokens(config, shape, setup), 11 * 16384) << "10.7 chunks";
  config.chunk_tokens = 1;
  EXPECT_EQ(hiding_step_tokens(config, shape, setup), kQwenTokens);
  config.target.gamma = 1.6;  // it may rise to 2, not to 2.4
  EXPECT_NEAR(static_cast<double>(hiding_step_tokens(config, shape, setup)), kQwenTokens * 2 / 1.8, 1.5);
  config.target.adapt = false;
  EXPECT_NEAR(static_cast<double>(hiding_step_tokens(config, shape, setup)), kQwenTokens * 1.6 / 1.8, 1.5);
}

TEST(HidingSteps, HaveALimit) {
  const ModelShape shape = find_known_model("Qwen3-30B-A3B")->shape;
  EngineSetup setup = qwen_on_a_gpu(shape, Placing::kHost);
  setup.blob_bytes *= 2;  // 350,842 tokens
  EngineConfig config;
  config.chunk_tokens = 100'000;
  EXPECT_EQ(hiding_step_tokens(config, shape, setup), 262144);
}

TEST(HidingSteps, AreNotWantedWhereTransfersDecideNothing) {
  const ModelShape shape = find_known_model("Qwen3-30B-A3B")->shape;
  EngineConfig config;
  config.chunk_tokens = 16384;
  EXPECT_EQ(hiding_step_tokens(config, shape, qwen_on_a_gpu(shape, Placing::kResident)), 0);
  const EngineSetup host = qwen_on_a_gpu(shape, Placing::kHost);
  const auto wanted = [&](auto&& change) {
    EngineConfig changed = config;
    change(changed);
    return hiding_step_tokens(changed, shape, host);
  };
  EXPECT_EQ(wanted([](EngineConfig& c) { c.max_step_tokens = 40000; }), 0);
  EXPECT_EQ(wanted([](EngineConfig& c) { c.target.tokens = 40000; }), 0);
  EXPECT_EQ(wanted([](EngineConfig& c) { c.target.milliseconds = 1; }), 0);
}

// A token of a context of 4,096 is 147,333,120 FLOPs in a layer, as above: here it takes a second, and a layer's
// experts a little over 10.
TEST(HidingSteps, OfVirtualRanksFollowTheirLinksAndPace) {
  const ModelShape shape = find_known_model("Qwen3-30B-A3B")->shape;
  EngineSetup setup = qwen_on_a_gpu(shape, Placing::kHost);
  setup.ranks[0].device = {.kind = DeviceKind::kCpu, .threads = 2};
  EngineConfig config;
  config.chunk_tokens = 1;
  config.paced_flops_per_second = 147'333'120;
  config.experts.host_link.bytes_per_second = 120'795'955;
  EXPECT_EQ(hiding_step_tokens(config, shape, setup), 18 + 1) << "1.8 x 10.00000002 s";
  // Without a limit copies are bound by memory alone: 1.8 x 0.1208 s are less than a token's time.
  config.experts.host_link.bytes_per_second = 0;
  EXPECT_EQ(hiding_step_tokens(config, shape, setup), 1);
}

/// A setup of Qwen3-30B on the CPU, whose rank is said to be an H200 by a calibration.
class QwenSetup : public ::testing::Test {
 protected:
  QwenSetup() {
    std::ofstream(folder_.path() / "h200.json")
        << format_calibration({"some",
                               {"Qwen3-30B-A3B", "bf16"},
                               {.rates = {.attention = 634e12, .dense = 790e12, .expert = 613e12},
                                .links = {.host = 55.2e9},
                                .step_seconds = 0}});
    config_.model = "random:Qwen3-30B-A3B";
    config_.compute = ComputeType::kBf16;
    config_.experts.mode = ExpertMode::kHost;
    config_.experts.host_bytes = 100 * kGiB;
    config_.memory_limit_bytes = 100 * kGiB;
    config_.kv_cache_bytes = 0;
    config_.target.calibration = folder_.path() / "h200.json";
  }
  [[nodiscard]] EngineSetup setup() const { return decide_setup(config_, *open_source(config_)); }
  static uint64_t bytes_of(const MemoryPlan& plan, std::string_view consumer) {
    for (const MemoryItem& item : plan.items)
      if (item.consumer == consumer) return item.bytes;
    return 0;
  }

  test::TemporaryFolder folder_;
  EngineConfig config_;
};

// 85.65 chunks of 2,048 tokens.
TEST_F(QwenSetup, PlansStepsThatHideTheHostLink) {
  const EngineSetup large = setup();
  EXPECT_EQ(large.scheduler.step_tokens_max, 86 * 2048);
  EXPECT_EQ(large.ranks[0].limits.tokens, 86 * 2048);
  EXPECT_EQ(large.ranks[0].limits.chunk_tokens, 2048);
  EXPECT_EQ(large.load.efficient_step_tokens, 4096);
  EXPECT_THAT(large.memory.to_text(),
              HasSubstr("\nsteps of up to 176128 tokens, so that compute can hide the transfer"));
  config_.max_step_tokens = 8192;
  const EngineSetup given = setup();
  EXPECT_EQ(given.scheduler.step_tokens_max, 8192);
  EXPECT_EQ(given.memory.note, "");
  // The rest of a residual row in f32, of q in bf16, and of k and v, for each token beyond the model's longest context.
  constexpr uint64_t kRowBytes = 4 * 2048 + 2 * (32 + 2 * 4) * 128;
  EXPECT_EQ(bytes_of(large.memory.rank, "activations") - bytes_of(given.memory.rank, "activations"),
            (86 * 2048 - 40960) * kRowBytes);
}

TEST_F(QwenSetup, LeavesStepsAloneWhereExpertsAreResident) {
  config_.experts.mode = ExpertMode::kResident;
  const EngineSetup resident = setup();
  EXPECT_EQ(resident.scheduler.step_tokens_max, 8192);
  EXPECT_EQ(resident.memory.note, "");
}

// With half of each layer's experts on the rank, 87,711 tokens hide the others: 43 chunks. There is just enough memory
// for half of them, beside the keys and values and experts that were asked for.
TEST_F(QwenSetup, HalvesStepsUntilTheyFitBesideWhatWasAskedFor) {
  config_.kv_cache_bytes = kGiB;
  config_.experts.mode = ExpertMode::kHybrid;
  config_.experts.rank_bytes = (128 + 47 * 64) * kQwenBlobBytes;
  config_.max_step_tokens = 43 * 1024;
  const uint64_t enough = setup().memory.total_bytes();
  config_.max_step_tokens = 0;
  config_.memory_limit_bytes = enough;
  const EngineSetup half = setup();
  EXPECT_EQ(half.scheduler.step_tokens_max, 43 * 1024);
  EXPECT_EQ(half.memory.note, "steps of up to 44032 tokens, as many as fit; 88064 would hide the transfer of experts");
  // 16 tokens x 48 layers x k and v x 4 heads x 128 x 2 bytes.
  EXPECT_EQ(half.ranks[0].kv_blocks, static_cast<int32_t>(kGiB / (16 * 48 * 2 * 4 * 128 * 2)));
  EXPECT_EQ(bytes_of(half.memory.rank, "experts"), (128 + 47 * 64) * kQwenBlobBytes);
  config_.memory_limit_bytes = enough - 1;
  EXPECT_EQ(setup().scheduler.step_tokens_max, 43 * 512);
}

// `zeroprefill plan` has the same (tests/plan/capacity_plan_test.cpp).
TEST(DefaultSteps, AreOf32KTokensOnAGpuHalvedUntilTheyFit) {
  std::vector<int64_t> asked;
  const auto decide = [&](const EngineConfig& config) {
    asked.push_back(*config.step_tokens);
    EngineSetup setup;
    setup.memory.rank.items = {{"all", static_cast<uint64_t>(*config.step_tokens)}};
    setup.memory.rank.limit_bytes = 10'000;
    return setup;
  };
  EngineConfig config;
  (void)decide_sizes(config, decide);
  config.device = "cuda";
  (void)decide_sizes(config, decide);
  EXPECT_EQ(asked, (std::vector<int64_t>{4096, 32768, 16384, 8192}));
}

// Plans made up to depend on the largest step alone.
class DecidedSizes : public ::testing::Test {
 protected:
  [[nodiscard]] EngineSetup decide(uint64_t limit_bytes) {
    return decide_sizes({}, [&, limit_bytes](const EngineConfig& config) {
      asked_.push_back(step_tokens_max(config));
      EngineSetup setup;
      setup.scheduler.step_tokens_max = asked_.back();
      setup.hiding_tokens = config.max_step_tokens > 0 ? 0 : 100'000;
      setup.memory.rank.items = {{"all", static_cast<uint64_t>(asked_.back())}};
      setup.memory.rank.limit_bytes = limit_bytes;
      if (asked_.back() >= moves_from_)
        setup.placement =
            Placement(find_known_model("Qwen3-30B-A3B")->shape, {.placing = Placing::kHost, .blob_bytes = 1});
      if (asked_.back() == throws_at_) fail(ErrorCode::kOutOfMemory, "too much for the host");
      return setup;
    });
  }
  std::vector<int64_t> asked_;
  int64_t throws_at_ = 0;
  int64_t moves_from_ = INT64_MAX;  // experts are elsewhere with steps of so many tokens
};

TEST_F(DecidedSizes, AreHalvedDownToTheDefault) {
  EXPECT_EQ(decide(12'499).scheduler.step_tokens_max, 8192);
  EXPECT_EQ(asked_, (std::vector<int64_t>{8192, 100'000, 50'000, 25'000, 12'500}));
  EXPECT_EQ(decide(12'499).memory.note,
            "steps of up to 8192 tokens, since more do not fit; 100000 would hide the transfer of experts");
  EXPECT_EQ(decide(12'500).scheduler.step_tokens_max, 12'500);
  EXPECT_EQ(decide(100'000).scheduler.step_tokens_max, 100'000);
}

TEST_F(DecidedSizes, AreNoneThatPlansRefuse) {
  throws_at_ = 100'000;
  EXPECT_EQ(decide(1'000'000).scheduler.step_tokens_max, 50'000);
}

TEST_F(DecidedSizes, SendNoExpertsElsewhere) {
  moves_from_ = 30'000;
  EXPECT_EQ(decide(1'000'000).scheduler.step_tokens_max, 25'000);
}

TEST_F(DecidedSizes, AreNotLookedForWhereTheDefaultDoesNotFit) {
  EXPECT_EQ(decide(8191).scheduler.step_tokens_max, 8192);
  EXPECT_EQ(asked_, (std::vector<int64_t>{8192}));
}

}  // namespace
}  // namespace zp
