// The rule against hand-computed times, and what it makes of steps on modelled devices.
#include "zp/schedule/load_controller.h"

#include <gtest/gtest.h>

#include "tests/schedule/scheduler_under_test.h"

namespace zp {
namespace {

// Of tiny_shape(), in FLOPs of its one layer: dense 2*8*16 + 2*8*8 + 2*8*4 = 448 a token, experts 2*3*2*8*8 = 768 a
// token, attention 4*2*4 = 32 a pair, head 2*8*16 = 256 a request.
LoadControllerSpec spec_of() {
  return {.measured = {.rates = {.attention = 32e6, .dense = 448e6, .expert = 768e6}, .links = {}, .step_seconds = 0},
          .transfer_seconds = 3e-3,
          .gamma = 1.2,
          .context_tokens = 1,
          .efficient_step_tokens = 1};
}
constexpr double kHeadSeconds = 256 / 448e6;

RequestCost cost_of(int64_t tokens, int64_t requests) {
  const CostModel model(tiny_shape());
  RequestCost cost;
  for (int64_t i = 0; i < requests; ++i) cost += model.cost({.prefix = 0, .suffix = tokens});
  return cost;
}

// A step of `requests` on a device whose attention takes `attention` times what was measured.
StepObservation step_of(int64_t tokens, int64_t requests, double attention, double exposed = 0, double fill = 1) {
  const RequestCost cost = cost_of(tokens, requests);
  const double compute = attention * cost.attention / 32e6 + cost.dense / 448e6 + cost.expert / 768e6 +
                         static_cast<double>(requests) * kHeadSeconds;
  return {.cost = cost,
          .requests = requests,
          .fill = fill,
          .seconds = compute / (1 - exposed),
          .exposed_seconds = compute / (1 - exposed) * exposed};
}

TEST(LoadController, TheTargetIsTheTimeInWhichExpertsArrive) {
  const LoadController controller(tiny_shape(), spec_of());
  // A token of a request of one takes 3 us: 32 / 32e6 + 448 / 448e6 + 768 / 768e6.
  EXPECT_NEAR(controller.saturation().threshold.seconds, 3.6e-3, 1e-12);
  EXPECT_NEAR(controller.saturation().threshold.tokens, 1200, 1e-6);
  EXPECT_NEAR(controller.saturation().threshold.flops, 1200 * 1248, 1e-3);
  EXPECT_NEAR(controller.rule().target, 3.6e-3, 1e-12);
  EXPECT_NEAR(controller.rule().load(cost_of(1, 1)), 3e-6, 1e-15);
}

TEST(LoadController, TheTargetIsNoLessThanAnEfficientStep) {
  LoadControllerSpec spec = spec_of();
  spec.efficient_step_tokens = 2000;
  const LoadController controller(tiny_shape(), spec);
  EXPECT_NEAR(controller.rule().target, 6e-3, 1e-12);
  EXPECT_NEAR(controller.saturation().threshold.seconds, 3.6e-3, 1e-12);
}

TEST(LoadController, AFixedTargetStaysWhatever) {
  LoadControllerSpec spec = spec_of();
  spec.fixed_seconds = 0.5;
  LoadController seconds(tiny_shape(), spec);
  EXPECT_EQ(seconds.rule().target, 0.5);
  EXPECT_NEAR(seconds.saturation().target.tokens, 0.5 / 3e-6, 1e-3);
  for (int i = 0; i < 10; ++i) (void)seconds.observe(step_of(1, 100, 5, 0.3));
  EXPECT_EQ(seconds.rule().target, 0.5);
  spec.fixed_seconds.reset();
  spec.fixed_tokens = 77;
  const LoadController tokens(tiny_shape(), spec);
  EXPECT_EQ(tokens.rule().target, 77);
  EXPECT_EQ(tokens.rule().load(cost_of(10, 3)), 30);
  EXPECT_TRUE(tokens.counts_tokens());
  EXPECT_NEAR(tokens.saturation().target.tokens, 77, 1e-9);
}

TEST(LoadController, StepsAsPredictedChangeNothing) {
  LoadController controller(tiny_shape(), spec_of());
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(controller.observe(step_of(1, 1200, 1))) << i;
  EXPECT_EQ(controller.recalibrations(), 0);
}

TEST(LoadController, GammaRisesWhileFullStepsAreExposedAndHasALimit) {
  LoadController controller(tiny_shape(), spec_of());
  EXPECT_TRUE(controller.observe(step_of(1, 1200, 1, 0.1)));
  EXPECT_NEAR(controller.gamma(), 1.2 / 0.9, 1e-9);
  EXPECT_NEAR(controller.rule().target, 3e-3 * 1.2 / 0.9, 1e-9);
  for (int i = 0; i < 50; ++i) (void)controller.observe(step_of(1, 1200, 1, 0.1));
  EXPECT_NEAR(controller.gamma(), kGammaMax, 0.05 * kGammaMax);
}

TEST(LoadController, GammaFallsSlowlyAndNotBelowOne) {
  LoadController controller(tiny_shape(), spec_of());
  for (int i = 0; i < 20; ++i) (void)controller.observe(step_of(1, 1200, 1));
  EXPECT_GT(controller.gamma(), 1.1);
  for (int i = 0; i < 1000; ++i) (void)controller.observe(step_of(1, 1200, 1));
  EXPECT_GE(controller.gamma(), 1);
  EXPECT_LT(controller.gamma(), 1.06);
}

TEST(LoadController, ExposedTimeOfStepsBelowTheTargetOrForOtherRanksSaysNothingOfGamma) {
  LoadController controller(tiny_shape(), spec_of());
  EXPECT_FALSE(controller.observe(step_of(1, 100, 1, 0.5, 0.3)));
  StepObservation waited = step_of(1, 1200, 1, 0.5);
  waited.peer_wait_seconds = waited.exposed_seconds;
  EXPECT_FALSE(controller.observe(waited));
  EXPECT_EQ(controller.gamma(), 1.2);
}

// Steps that a limit ended are no exception, if their work is not much more than what a step takes besides.
TEST(LoadController, SmallStepsTeachNothing) {
  LoadControllerSpec spec = spec_of();
  spec.efficient_step_tokens = 1000;
  spec.measured.step_seconds = 1e-4;
  LoadController controller(tiny_shape(), spec);
  for (const StopReason reason : {StopReason::kQueueEnded, StopReason::kCapacity, StopReason::kLookAhead}) {
    StepObservation small = step_of(1, 100, 1, 0, 0.08);  // a step of 0.3 ms
    small.seconds *= 100;                                 // mostly something else
    small.filled_by = reason;
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(controller.observe(small)) << to_string(reason);
  }
}

// The start found the device ten times as fast as it is: the target is ten times too many tokens, and step_tokens_max
// or the look-ahead keeps all steps far below a quarter of it.
class AStartThatOverstated : public ::testing::Test {
 protected:
  static constexpr double kTimes = 10;
  static constexpr int64_t kTokensMax = 1600;  // a seventh of the wrong target, more than the right one

  static LoadControllerSpec spec_of_start(int64_t efficient_step_tokens) {
    LoadControllerSpec spec = spec_of();
    OperationRates& rates = spec.measured.rates;
    rates = {.attention = kTimes * rates.attention, .dense = kTimes * rates.dense, .expert = kTimes * rates.expert};
    spec.efficient_step_tokens = efficient_step_tokens;
    spec.measured.step_seconds = 1e-5;
    return spec;
  }
  // What the device takes for a step, filled as the rule in use fills it.
  static StepObservation step(const LoadController& controller, int64_t tokens, StopReason reason) {
    StepObservation step = step_of(1, tokens, 1);
    step.seconds += 1e-5;
    step.fill = controller.rule().load(step.cost) / controller.rule().target;
    step.filled_by = reason;
    return step;
  }
  static void expect_recovered(const LoadController& controller) {
    // 3 us a token.
    EXPECT_NEAR(controller.rule().load(cost_of(1, 1000)) / 3e-3, 1, 0.1);
    EXPECT_NEAR(controller.saturation().threshold.tokens / 1200, 1, 0.1);
  }
};

TEST_F(AStartThatOverstated, IsCorrectedByStepsThatAreEfficientlyLarge) {
  // A quarter of 6,000 tokens is large, whatever the target.
  LoadController controller(tiny_shape(), spec_of_start(6000));
  ASSERT_LT(step(controller, kTokensMax, StopReason::kQueueEnded).fill, 0.25);
  for (int i = 0; i < 10; ++i) (void)controller.observe(step(controller, kTokensMax, StopReason::kQueueEnded));
  expect_recovered(controller);
}

TEST_F(AStartThatOverstated, IsCorrectedByStepsThatALimitEnds) {
  for (const StopReason reason : {StopReason::kCapacity, StopReason::kLookAhead}) {
    LoadController controller(tiny_shape(), spec_of_start(8000));
    ASSERT_LT(step(controller, kTokensMax, reason).fill, 0.25);
    for (int i = 0; i < 10; ++i) (void)controller.observe(step(controller, kTokensMax, reason));
    expect_recovered(controller);
  }
}

// A rank that sent its tokens away has computed less than they cost.
TEST(LoadController, StepsThatSentActivationsSayNothingOfTheRates) {
  LoadController controller(tiny_shape(), spec_of());
  StepObservation sent = step_of(1, 1200, 1);
  sent.seconds *= 0.3;
  sent.sent_activations = true;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(controller.observe(sent));
  EXPECT_EQ(controller.measured().rates.dense, 448e6);
}

// Attention takes twice what was measured. 300 tokens are a quarter of an efficient step.
TEST(LoadController, LaterRunsGetWhatWasMeasuredUntilEnoughLargeStepsSaidOtherwise) {
  LoadControllerSpec spec = spec_of();
  spec.efficient_step_tokens = 1200;
  LoadController controller(tiny_shape(), spec);
  for (int32_t i = 0; i < kSettledSteps; ++i) {
    EXPECT_EQ(controller.settled().rates, spec.measured.rates) << i;
    (void)controller.observe(i % 2 == 0 ? step_of(500, 2, 2) : step_of(1, 400, 2));
  }
  EXPECT_NEAR(controller.settled().rates.attention / 16e6, 1, 0.02);
  EXPECT_NEAR(controller.settled().rates.expert / 768e6, 1, 0.02);
}

// Twelve steps of short requests take 20 times what was expected, since other programs had the cores, and as many of
// long ones do not: a fit of two factors has attention 20 times as fast as the rest.
TEST(LoadController, LaterRunsHearOfOneFactorWhereTwoMakeNoSense) {
  LoadController controller(tiny_shape(), spec_of());
  double seconds = 0;
  double expected = 0;
  for (int32_t i = 0; i < 12; ++i) {
    StepObservation slow = step_of(1, 400, 1);
    const StepObservation fast = step_of(500, 2, 1);
    expected += slow.seconds + fast.seconds;
    slow.seconds *= 20;
    seconds += slow.seconds + fast.seconds;
    (void)controller.observe(slow);
    (void)controller.observe(fast);
  }
  const OperationRates rates = controller.settled().rates;
  const double factor = expected / seconds;
  EXPECT_NEAR(rates.attention / 32e6 / factor, 1, 1e-9);
  EXPECT_NEAR(rates.dense / 448e6 / factor, 1, 1e-9);
  EXPECT_NEAR(rates.expert / 768e6 / factor, 1, 1e-9);
}

// A target of 100 tokens is full, and steps that fill it are in use for the next, but they are small.
TEST(LoadController, LaterRunsHearNothingOfSmallSteps) {
  LoadControllerSpec spec = spec_of();
  spec.efficient_step_tokens = 1200;
  spec.fixed_tokens = 100;
  LoadController controller(tiny_shape(), spec);
  const auto observe_small = [&] {
    StepObservation small = step_of(1, 100, 1);
    small.seconds *= 3;
    for (int i = 0; i < 20; ++i) (void)controller.observe(small);
  };
  observe_small();
  ASSERT_LT(controller.measured().rates.dense, 0.5 * spec.measured.rates.dense);
  EXPECT_EQ(controller.settled().rates, spec.measured.rates);
  // Nor do they bend what large ones say: as measured.
  for (int32_t i = 0; i < kSettledSteps; ++i) (void)controller.observe(step_of(1, 1200, 1));
  observe_small();
  EXPECT_NEAR(controller.settled().rates.dense / spec.measured.rates.dense, 1, 1e-12);
}

TEST(LoadController, ToldNotToAdaptItDoesNot) {
  LoadControllerSpec spec = spec_of();
  spec.adapt = false;
  LoadController controller(tiny_shape(), spec);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(controller.observe(step_of(500, 3, 0.1, 0.4)));
  EXPECT_EQ(controller.rule().target, 3.6e-3);
}

TEST(LoadController, GammaStartsAnewWhenRatesTurnOutToBeWrong) {
  LoadController controller(tiny_shape(), spec_of());
  for (int i = 0; i < 3; ++i) (void)controller.observe(step_of(1, 1200, 1, 0.1));
  ASSERT_GT(controller.gamma(), 1.5);
  EXPECT_TRUE(controller.observe(step_of(500, 2, 0.125, 0.4)));
  EXPECT_EQ(controller.gamma(), 1.2);
}

// Attention was measured on short sequences, where it is slow. Long ones show how fast it is: within three steps the
// rule asks for so many of them that they take what it says.
TEST(LoadController, LongerRequestsRecalibrateWithinThreeSteps) {
  constexpr double kAttention = 0.125;  // of what was measured
  LoadController controller(tiny_shape(), spec_of());
  for (int i = 0; i < 50; ++i) (void)controller.observe(step_of(4, 300, kAttention));
  const auto real_seconds = [](const RequestCost& cost) {
    return kAttention * cost.attention / 32e6 + cost.dense / 448e6 + cost.expert / 768e6;
  };
  const RequestCost one = cost_of(500, 1);
  for (int i = 0; i < 3; ++i) (void)controller.observe(step_of(500, 2, kAttention));
  EXPECT_NEAR(controller.rule().load(one) / real_seconds(one), 1, 0.06);
  EXPECT_GT(controller.context_tokens(), 300);
  // And back: short requests are priced right at once, since what is not attention has not changed.
  const RequestCost short_one = cost_of(4, 1);
  EXPECT_NEAR(controller.rule().load(short_one) / real_seconds(short_one), 1, 0.1);
}

TEST(LoadController, SaysTForTheLengthsAtHand) {
  LoadControllerSpec spec = spec_of();
  spec.adapt = true;
  LoadController controller(tiny_shape(), spec);
  for (int i = 0; i < 20; ++i) (void)controller.observe(step_of(999, 2, 1));
  EXPECT_NEAR(controller.context_tokens(), 999, 40);
  // 3.6 ms of tokens that see 500 pairs each: 502 us a token.
  EXPECT_NEAR(controller.saturation().threshold.tokens, 3.6e-3 / 502e-6, 0.4);
}

}  // namespace
}  // namespace zp
