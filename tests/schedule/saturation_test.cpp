// Layer times and thresholds against plain arithmetic.
#include "zp/schedule/saturation.h"

#include <gtest/gtest.h>

#include "tests/schedule/scheduler_under_test.h"

namespace zp {
namespace {

constexpr OperationRates kRates{.attention = 2e6, .dense = 5e6, .expert = 1e6};

TEST(LayerSeconds, TakesEachWorkAtItsRate) {
  const RequestCost cost{.tokens = 3, .attention = 4e6, .dense = 10e6, .expert = 7e6};
  EXPECT_DOUBLE_EQ(layer_seconds(cost, kRates), 2 + 2 + 7);
}

TEST(LayerSeconds, AddsUp) {
  const CostModel model(tiny_shape());
  RequestCost sum = model.cost({.prefix = 16, .suffix = 40});
  const RequestCost other = model.cost({.prefix = 0, .suffix = 7});
  const double parts = layer_seconds(sum, kRates) + layer_seconds(other, kRates);
  sum += other;
  EXPECT_DOUBLE_EQ(layer_seconds(sum, kRates), parts);
}

// tiny_shape: projections 2 * (8 * (2 + 2) * 4 + 8 * 8) = 384, router 2 * 8 * 4 = 64, experts 2 * 3 * 2 * 8 * 8 = 768
// FLOPs a token; a context of one token sees one pair: 4 * 2 * 4 = 32.
TEST(Saturation, IsTransferTimesRateTimesGamma) {
  const CostModel model(tiny_shape());
  const SaturationSpec spec{
      .transfer_seconds = 0.5, .gamma = 1.2, .rates = kRates, .peak_rate = 8e6, .context_tokens = 1};
  const double seconds = 32 / 2e6 + (384 + 64) / 5e6 + 768 / 1e6;
  const double rate = (32 + 448 + 768) / seconds;
  const Saturation achieved = saturation(model, spec);
  EXPECT_DOUBLE_EQ(achieved.rate, rate);
  EXPECT_DOUBLE_EQ(achieved.threshold.flops, 0.5 * rate * 1.2);
  EXPECT_DOUBLE_EQ(achieved.threshold.seconds, 0.6);
  EXPECT_DOUBLE_EQ(achieved.threshold.tokens, 0.6 / seconds);
  EXPECT_DOUBLE_EQ(achieved.target.flops, achieved.threshold.flops);

  SaturationSpec peak = spec;
  peak.rate = ThresholdRate::kPeak;
  EXPECT_DOUBLE_EQ(saturation(model, peak).threshold.flops, 0.5 * 8e6 * 1.2);
  EXPECT_DOUBLE_EQ(saturation(model, peak).threshold.seconds, 0.6 * 8e6 / rate);
}

TEST(Saturation, TheTargetIsNoLessThanTheEfficientStep) {
  const CostModel model(tiny_shape());
  SaturationSpec spec{.transfer_seconds = 0, .rates = kRates, .context_tokens = 64, .efficient_step_tokens = 256};
  EXPECT_EQ(saturation(model, spec).threshold.flops, 0);
  EXPECT_DOUBLE_EQ(saturation(model, spec).target.tokens, 256);
  spec.transfer_seconds = 100;
  const Saturation slow = saturation(model, spec);
  EXPECT_GT(slow.target.tokens, 256);
  EXPECT_EQ(slow.target.flops, slow.threshold.flops);
}

TEST(LayerTimeLoad, FillsStepsByPredictedTime) {
  const CostModel model(tiny_shape());
  const RequestCost one = model.cost({.prefix = 0, .suffix = 64});
  const LoadRule rule = layer_time_load(kRates, 3 * layer_seconds(one, kRates), 2 * layer_seconds(one, kRates));
  EXPECT_EQ(rule.floor, 2 * layer_seconds(one, kRates));
  EXPECT_EQ(layer_time_load(kRates, 3, 5).floor, 3) << "no more than the target";
  SchedulerUnderTest t({.pool_blocks = {0}, .load = rule});
  for (uint64_t id = 0; id < 5; ++id) t.submit(id, text(static_cast<int32_t>(id), 64));
  const auto step = t.next();
  EXPECT_EQ(ids(step), list({0, 1, 2}));
  EXPECT_EQ(step->filled_by, StopReason::kTarget);
}

TEST(CostModel, SlidingLayersSeeTheirWindow) {
  ModelShape shape = tiny_shape();
  shape.layers = 4;
  shape.feed_forward.assign(4, FeedForward::kMoe);
  shape.planning = {.sliding_window = 5, .sliding_layers = 3};
  const AttentionSpan span{.prefix = 32, .suffix = 9};
  EXPECT_DOUBLE_EQ(CostModel(shape).cost(span).attention,
                   static_cast<double>(attention_flops_all_layers(shape, span)) / 4);
}

}  // namespace
}  // namespace zp
