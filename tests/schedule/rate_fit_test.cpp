// Factors against devices whose rates are known.
#include "zp/schedule/rate_fit.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace zp {
namespace {

// A device that takes this many times as long as predicted.
struct Device {
  double attention = 1;
  double other = 1;
  [[nodiscard]] TimedWork run(double attention_seconds, double other_seconds, double noise = 1) const {
    return {attention_seconds, other_seconds, noise * (attention * attention_seconds + other * other_seconds)};
  }
};

TEST(RateFit, BelievesWhatWasMeasuredUntilStepsSayOtherwise) {
  RateFit fit;
  EXPECT_EQ(fit.factors().attention, 1);
  for (int i = 0; i < 20; ++i) fit.observe(Device{}.run(1, 3));
  EXPECT_NEAR(fit.factors().attention, 1, 1e-9);
  EXPECT_NEAR(fit.factors().other, 1, 1e-9);
}

TEST(RateFit, TellsAttentionFromTheRestWhenLengthsDiffer) {
  const Device device{.attention = 0.15, .other = 1.2};
  RateFit fit;
  for (int i = 0; i < 10; ++i) {
    fit.observe(device.run(0.1, 1));
    fit.observe(device.run(5, 1));
  }
  EXPECT_NEAR(fit.factors().attention, 0.15, 0.01);
  EXPECT_NEAR(fit.factors().other, 1.2, 0.05);
}

// Of steps all alike only the sum can be known; it is right after a few.
TEST(RateFit, PredictsStepsAllAlikeWithinAFew) {
  for (const double off : {0.2, 0.5, 2.0, 5.0}) {
    const Device device{.attention = off, .other = off};
    RateFit fit;
    for (int i = 0; i < 8; ++i) fit.observe(device.run(1, 2));
    const double predicted = fit.factors().attention * 1 + fit.factors().other * 2;
    EXPECT_NEAR(predicted / (off * 3), 1, 0.05) << off;
  }
}

// After many short requests attention is unknown; a few long ones are enough, and leave the rest as it was.
TEST(RateFit, FollowsAChangeOfLengthsWithinAFewSteps) {
  const Device device{.attention = 0.15, .other = 1};
  RateFit fit;
  for (int i = 0; i < 200; ++i) fit.observe(device.run(0.02, 1));
  for (int i = 0; i < 3; ++i) fit.observe(device.run(4, 1));
  EXPECT_NEAR(fit.factors().attention * 4 + fit.factors().other, device.run(4, 1).seconds, 0.05 * 1.6);
  EXPECT_NEAR(fit.factors().other, 1, 0.1);
}

// Long after the start, whatever the lengths; least squares alone take up to 215 steps for these.
TEST(RateFit, FollowsADeviceThatHasChangedTenfoldWithinThirtySteps) {
  using Lengths = std::vector<double>;  // attention for each second of the rest
  for (const Lengths& lengths : {Lengths{0.5}, Lengths{0.02}, Lengths{4}, Lengths{0.1, 5}}) {
    for (const Device device : {Device{10, 10}, Device{0.1, 0.1}, Device{10, 1}, Device{1, 10}, Device{0.1, 1},
                                Device{1, 0.1}, Device{3, 3}}) {
      RateFit fit;
      std::mt19937 random(1);
      std::normal_distribution<double> noise(1, 0.02);
      for (size_t i = 0; i < 200; ++i) fit.observe(Device{}.run(lengths[i % lengths.size()], 1, noise(random)));
      for (size_t i = 0; i < 30; ++i) fit.observe(device.run(lengths[i % lengths.size()], 1, noise(random)));
      for (const double length : lengths) {
        const double predicted = fit.factors().attention * length + fit.factors().other;
        EXPECT_NEAR(predicted / device.run(length, 1).seconds, 1, 0.08)
            << device.attention << ", " << device.other << " at " << length << " of " << lengths.size();
      }
    }
  }
}

// A step that took twice as long is one of the last 33 or so that count: 1 / (1 - 0.97).
TEST(RateFit, OneHiccupMovesLittle) {
  RateFit fit;
  for (int i = 0; i < 200; ++i) fit.observe(Device{}.run(i % 2 == 0 ? 3 : 0.2, 2));
  fit.observe(Device{}.run(1, 2, 2));
  EXPECT_NEAR((fit.factors().attention + 2 * fit.factors().other) / 3, 1, 0.05);
}

TEST(RateFit, NoiseAveragesOut) {
  const Device device{.attention = 0.5, .other = 1.5};
  RateFit fit;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  std::uniform_real_distribution<double> length(0.1, 3);
  for (int i = 0; i < 300; ++i) fit.observe(device.run(length(random), 1, noise(random)));
  EXPECT_NEAR(fit.factors().attention, 0.5, 0.08);
  EXPECT_NEAR(fit.factors().other, 1.5, 0.12);
}

// 20,000 steps of short rows, all alike but for noise: attention is 2 % of them, so they hardly tell its rate. Where
// old steps are forgotten, it comes to be whatever the noise makes of it.
TEST(RateFit, KeepsWhatStepsDoNotTellWhereAllCount) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.8, 1.2);
  RateFit fit(RateFit::Memory::kAll);
  for (int i = 0; i < 20'000; ++i) {
    fit.observe(Device{.attention = 1.1, .other = 1.3}.run(0.02, 0.98, noise(random)));
    ASSERT_GT(fit.factors().attention, 0.6) << i;
    ASSERT_LT(fit.factors().attention, 1.8) << i;
  }
  EXPECT_NEAR(fit.factors().other, 1.3, 0.02);
}

TEST(RateFit, IgnoresWhatCannotBe) {
  RateFit fit;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const TimedWork& work : {TimedWork{1, 1, 0}, TimedWork{1, 1, -1}, TimedWork{0, 0, 1}, TimedWork{1, 1, nan},
                                TimedWork{nan, 1, 1}, TimedWork{1, std::numeric_limits<double>::infinity(), 1}})
    fit.observe(work);
  EXPECT_EQ(fit.factors().attention, 1);
  EXPECT_EQ(fit.factors().other, 1);
}

}  // namespace
}  // namespace zp
