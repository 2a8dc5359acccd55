// Predicted costs against numbers worked out by hand, and what the choice makes of them.
#include "zp/expert/mode_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "zp/expert/mode_chooser.h"

namespace zp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// H = 4, Q = 2, G = 1, D = 2, E = 4, k = 2, I = 3, V = 10. FLOPs of a token in a layer: projections
// 2 * (4 * (2 + 2) * 2 + 2 * 2 * 4) = 96, router 2 * 4 * 4 = 32, experts 2 * 2 * 3 * 4 * 3 = 144; of a pair in
// attention 4 * 2 * 2 = 16; of a row of the head 2 * 4 * 10 = 80.
ModelShape shape_of(int32_t layers) {
  ModelShape shape;
  shape.layers = layers;
  shape.hidden = 4;
  shape.query_heads = 2;
  shape.kv_heads = 1;
  shape.head_dim = 2;
  shape.experts = 4;
  shape.experts_per_token = 2;
  shape.expert_intermediate = 3;
  shape.vocabulary = 10;
  shape.feed_forward.assign(static_cast<size_t>(layers), FeedForward::kMoe);
  return shape;
}

constexpr uint64_t kBlob = 1000;
const StepLoad kLoad{.tokens = 10, .attention_pairs = 55, .head_rows = 1};
// A layer takes 10 * 128 + 55 * 16 = 2160 FLOPs outside experts and 1440 inside; the head 80.

Placement placement_of(const ModelShape& shape, Placing placing, int32_t ranks) {
  return {shape, {.ranks = ranks, .placing = placing, .blob_bytes = kBlob}};
}

ModeCost cost_of(const ModelShape& shape, const Placement& placement, const Calibration& calibration,
                 int32_t slots = 2) {
  return {shape,
          placement,
          {.rank = 0, .slots = slots, .blob_bytes = kBlob, .slice_bytes = 400, .activation_bytes = 2, .job_rows = 1000},
          calibration};
}

// 1 FLOP takes a millisecond.
Calibration calibration_of(double bytes_per_second, double copy_seconds = 0, double sync_seconds = 0) {
  return {.link_bytes_per_second = bytes_per_second,
          .copy_seconds = copy_seconds,
          .sync_seconds = sync_seconds,
          .step_seconds = 0.5,
          .flops_per_second = 1000};
}

double seconds(const ModeCost& cost, StepMode mode, const StepLoad& load = kLoad) {
  return cost.seconds(mode, load, {});
}

TEST(ModeCost, CountsWhatIsComputed) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 2);
  const ModeCost cost = cost_of(shape, placement, calibration_of(1000));
  EXPECT_DOUBLE_EQ(cost.compute_seconds(kLoad), 0.5 + 3 * (2.16 + 1.44) + 0.08);
  EXPECT_DOUBLE_EQ(cost.remote_experts(), 2);
}

// 2 of 4 experts of layers 1 and 2 are elsewhere: 2000 bytes a layer.
TEST(ModeCost, GatheringCostsNothingWhileALayerHidesIt) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 2);
  // A gather takes 1 s, a layer 3.6 s.
  const ModeCost cost = cost_of(shape, placement, calibration_of(2000));
  EXPECT_DOUBLE_EQ(seconds(cost, StepMode::kGatherAll), cost.compute_seconds(kLoad));
}

TEST(ModeCost, GatheringCostsWhatTheLinkTakesWhenItIsSlow) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 2);
  // 20 s a gather, two a step: the link never rests, since a slot is free long before its turn.
  const ModeCost cost = cost_of(shape, placement, calibration_of(100));
  EXPECT_DOUBLE_EQ(seconds(cost, StepMode::kGatherAll), 40);
  // Each expert comes in three slices, each 0.1 s late: 2 * 3 * 0.1 more a gather.
  const ModeCost late = cost_of(shape, placement, calibration_of(100, 0.1));
  EXPECT_NEAR(seconds(late, StepMode::kGatherAll), 41.2, 1e-9);
}

// E = 4, k = 2: a token misses an expert with probability 1/2.
TEST(ModeCost, ExpectsDifferentExpertsAsIndependentChoicesGiveThem) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 2);
  const ModeCost cost = cost_of(shape, placement, calibration_of(1000));
  EXPECT_DOUBLE_EQ(cost.expected_experts(2, 0), 0);
  EXPECT_DOUBLE_EQ(cost.expected_experts(2, 1), 1);
  EXPECT_DOUBLE_EQ(cost.expected_experts(2, 2), 1.5);
  EXPECT_NEAR(cost.expected_experts(2, 1000), 2, 1e-12);
}

TEST(ModeCost, FetchingWaitsForRoutingAndForTheExpertsOfEachLayer) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 2);
  const ModeCost cost = cost_of(shape, placement, calibration_of(1000, 0.1, 0.25));
  const StepLoad one{.tokens = 1, .attention_pairs = 1, .head_rows = 1};
  // One expert a layer in three slices, twice.
  EXPECT_NEAR(seconds(cost, StepMode::kFetchRouted, one), cost.compute_seconds(one) + 2 * (0.25 + 1 + 0.3), 1e-9);
  // Twice as many as expected are both; more than there are cannot come.
  EXPECT_NEAR(cost.seconds(StepMode::kFetchRouted, one, {.compute = 1, .routed = 5}),
              cost.compute_seconds(one) + 2 * (0.25 + 2 + 0.6), 1e-9);
}

// 10 tokens * 2 choices, half of them remote: 10 rows of 8 bytes there and 16 bytes back in one job.
TEST(ModeCost, SendingWaitsForRoutingRowsAndResults) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 2);
  const ModeCost cost = cost_of(shape, placement, calibration_of(1000, 0.1, 0.25));
  // Rows take 0.18 s to come, less than own experts take to compute (0.72 s); then 0.72 s for others, and 0.26 s back.
  const double layer = 0.25 + 0.72 + 0.72 + 0.26;
  EXPECT_NEAR(seconds(cost, StepMode::kSendActivations), cost.compute_seconds(kLoad) + 2 * (layer - 1.44), 1e-9);
  // 0.5 B/s: 240 bytes take 480 s, and the two copies 0.2 s.
  const ModeCost slow = cost_of(shape, placement, calibration_of(0.5, 0.1, 0.25));
  EXPECT_NEAR(seconds(slow, StepMode::kSendActivations),
              cost.compute_seconds(kLoad) + 2 * (0.25 + 160 + 0.1 + 0.72 + 320 + 0.1 - 1.44), 1e-6);
}

TEST(ModeCost, IsMonotonous) {
  const ModelShape shape = shape_of(5);
  const Placement placement = placement_of(shape, Placing::kGathered, 3);
  for (const StepMode mode : {StepMode::kGatherAll, StepMode::kFetchRouted, StepMode::kSendActivations}) {
    double before = 0;
    for (int64_t tokens = 0; tokens <= 4096; tokens = 2 * tokens + 1) {
      const double now = seconds(cost_of(shape, placement, calibration_of(2000, 0.01, 0.01)), mode,
                                 {.tokens = tokens, .attention_pairs = tokens * 8, .head_rows = 1});
      EXPECT_GE(now, before - 1e-9) << to_string(mode) << ", " << tokens << " tokens";
      before = now;
    }
    before = kInfinity;
    for (double rate = 1; rate < 1e9; rate *= 10) {
      const double now = seconds(cost_of(shape, placement, calibration_of(rate, 0.01, 0.01)), mode);
      EXPECT_LE(now, before + 1e-9) << to_string(mode) << ", " << rate << " B/s";
      before = now;
    }
  }
}

TEST(ModeCost, WithNothingElsewhereAllModesComputeOnly) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 1);
  const ModeCost cost = cost_of(shape, placement, calibration_of(10, 1, 1));
  for (const StepMode mode : {StepMode::kGatherAll, StepMode::kFetchRouted, StepMode::kSendActivations})
    EXPECT_DOUBLE_EQ(seconds(cost, mode), cost.compute_seconds(kLoad));
}

TEST(ModeCost, HoldsForNoTokensAndInfiniteRates) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 2);
  Calibration calibration = calibration_of(kInfinity);
  const ModeCost fast_link = cost_of(shape, placement, calibration);
  for (const StepMode mode : {StepMode::kGatherAll, StepMode::kFetchRouted, StepMode::kSendActivations}) {
    EXPECT_NEAR(seconds(fast_link, mode), fast_link.compute_seconds(kLoad), 1e-9) << to_string(mode);
    EXPECT_DOUBLE_EQ(seconds(fast_link, mode, {}), 0.5) << to_string(mode);
  }
  calibration.flops_per_second = kInfinity;
  EXPECT_DOUBLE_EQ(cost_of(shape, placement, calibration).compute_seconds(kLoad), 0.5);
}

constexpr ModeChooser::Available kAll = {true, true, true};

TEST(ModeChooser, TakesTheLeastOfWhatIsAvailable) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 2);
  const StepLoad one{.tokens = 1, .attention_pairs = 1, .head_rows = 1};
  const ModeChooser slow(cost_of(shape, placement, calibration_of(100)));
  EXPECT_EQ(slow.choose(one, kAll), StepMode::kSendActivations);
  EXPECT_EQ(slow.choose(one, {true, true, false}), StepMode::kFetchRouted);
  EXPECT_EQ(slow.choose(one, {true, false, false}), StepMode::kGatherAll);
  // Hidden behind compute, and no host waits: nothing beats gathering all.
  const ModeChooser fast(cost_of(shape, placement, calibration_of(1e6, 0, 0.01)));
  EXPECT_EQ(fast.choose({.tokens = 100, .attention_pairs = 100, .head_rows = 1}, kAll), StepMode::kGatherAll);
}

TEST(ModeChooser, LeavesAModeThatTakesLongerThanPredictedAndTriesItAgainLater) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 2);
  const ModeCost cost = cost_of(shape, placement, calibration_of(100));
  ModeChooser chooser(cost);
  int64_t sent = 0;
  int64_t longest_pause = 0;
  int64_t pause = 0;
  for (int32_t step = 0; step < 400; ++step) {
    const StepMode mode = chooser.choose(kLoad, kAll);
    const bool sends = mode == StepMode::kSendActivations;
    sent += sends ? 1 : 0;
    pause = sends ? 0 : pause + 1;
    longest_pause = std::max(longest_pause, pause);
    // Sending takes five times as long as predicted, the others as predicted.
    const double took = cost.seconds(mode, kLoad, {}) * (sends ? 5 : 1);
    chooser.observe(
        {.load = kLoad, .mode = mode, .seconds = took, .exposed_seconds = took - cost.compute_seconds(kLoad)});
  }
  EXPECT_GE(sent, 2);
  EXPECT_LE(sent, 40);
  EXPECT_GE(longest_pause, 20);
}

TEST(ModeChooser, LearnsThatFewerExpertsAreRoutedTo) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 2);
  ModeChooser chooser(cost_of(shape, placement, calibration_of(100)));
  const double before = chooser.predicted_seconds(StepMode::kFetchRouted, kLoad);
  for (int32_t i = 0; i < 50; ++i) chooser.observe_routing({.load = kLoad, .routed_layers = 2, .routed_experts = 1});
  EXPECT_LT(chooser.predicted_seconds(StepMode::kFetchRouted, kLoad), before / 2);
}

TEST(ModeChooser, OneSlowStepChangesLittle) {
  const ModelShape shape = shape_of(3);
  const Placement placement = placement_of(shape, Placing::kGathered, 2);
  const ModeCost cost = cost_of(shape, placement, calibration_of(100));
  ModeChooser chooser(cost);
  const double usual = cost.seconds(StepMode::kGatherAll, kLoad, {});
  const double exposed = usual - cost.compute_seconds(kLoad);
  for (int32_t i = 0; i < 3; ++i)
    chooser.observe({.load = kLoad,
                     .seconds = i < 2 ? usual : 100 * usual,
                     .exposed_seconds = i < 2 ? exposed : 100 * usual - cost.compute_seconds(kLoad)});
  EXPECT_LE(chooser.predicted_seconds(StepMode::kGatherAll, kLoad), 1.25 * usual);
  EXPECT_GE(chooser.predicted_seconds(StepMode::kGatherAll, kLoad), 1.1 * usual);
}

}  // namespace
}  // namespace zp
