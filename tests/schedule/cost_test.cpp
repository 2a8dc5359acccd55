#include "zp/schedule/cost.h"

#include <gtest/gtest.h>

#include "tests/schedule/scheduler_under_test.h"

namespace zp {
namespace {

ModelShape mixed_shape() {
  ModelShape shape = tiny_shape();
  shape.layers = 4;
  shape.dense_intermediate = 5;
  shape.feed_forward = {FeedForward::kDense, FeedForward::kMoe, FeedForward::kMoe, FeedForward::kMoe};
  return shape;
}

TEST(CostModel, IsTheMeanOverLayersOfTheShapesFlops) {
  const ModelShape shape = mixed_shape();
  const RequestCost cost = CostModel(shape).cost({.prefix = 32, .suffix = 9});
  double attention = 0;
  double dense = 0;
  double expert = 0;
  for (const FeedForward kind : shape.feed_forward) {
    const LinearFlops flops = linear_flops(shape, kind);
    attention += static_cast<double>(attention_flops(shape, {.prefix = 32, .suffix = 9})) / 4;
    dense += 9.0 * static_cast<double>(flops.projections + flops.router + flops.dense) / 4;
    expert += 9.0 * static_cast<double>(flops.experts) / 4;
  }
  EXPECT_EQ(cost.tokens, 9);
  EXPECT_DOUBLE_EQ(cost.attention, attention);
  EXPECT_DOUBLE_EQ(cost.dense, dense);
  EXPECT_DOUBLE_EQ(cost.expert, expert);
  EXPECT_DOUBLE_EQ(cost.total(), attention + dense + expert);
}

TEST(CostModel, ReuseSavesExactlyTheReusedTokens) {
  const CostModel model(mixed_shape());
  const RequestCost whole = model.cost({.prefix = 0, .suffix = 100});
  RequestCost parts = model.cost({.prefix = 0, .suffix = 64});
  parts += model.cost({.prefix = 64, .suffix = 36});
  EXPECT_EQ(parts.tokens, whole.tokens);
  EXPECT_DOUBLE_EQ(parts.total(), whole.total());
}

TEST(TokenLoad, CountsComputedTokens) {
  const LoadRule rule = token_load(100);
  EXPECT_EQ(rule.load(CostModel(mixed_shape()).cost({.prefix = 640, .suffix = 17})), 17);
  EXPECT_EQ(rule.target, 100);
}

TEST(SchedulerConfig, NamesEveryProblem) {
  EXPECT_TRUE(validate(SchedulerConfig{}).empty());
  SchedulerConfig config{.pool_blocks = {4, -1},
                         .load = token_load(0),
                         .step_tokens_max = 0,
                         .max_request_tokens = int64_t{1} << 40,
                         .queue_max = 0,
                         .look_ahead = 0,
                         .bypass_max = 0,
                         .deadline_slack_ns = -1,
                         .one_off_share = 2};
  EXPECT_EQ(validate(config).size(), 9U);
  config.pool_blocks.assign(kMaxRanks + 1, 0);
  config.load.load = nullptr;
  EXPECT_EQ(validate(config).size(), 10U);
  EXPECT_FALSE(validate(SchedulerConfig{.pool_blocks = {}}).empty());
}

}  // namespace
}  // namespace zp
