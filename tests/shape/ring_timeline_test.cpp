// The ring against times worked out by hand, and against a plain simulation of its events.
#include "zp/shape/ring_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace zp {
namespace {

constexpr TimedLayer kHere{.outside = 1, .experts = 2, .streamed = false};
constexpr TimedLayer kStreamed{.outside = 1, .experts = 2, .streamed = true};

TEST(RingTimeline, WithoutStreamedLayersComputeAddsUp) {
  RingTimeline ring(2, {}, 0);
  const std::vector<TimedLayer> layers = {kHere, kHere};
  const RingTimeline::Step step = ring.run(10, 0.5, layers, 0.25);
  EXPECT_DOUBLE_EQ(step.end, 16.75);
  EXPECT_EQ(step.exposed, 0);
}

// Both slots are filled by 4 and 8; the third gather begins when the first slot is free and the link is.
TEST(RingTimeline, WaitsForWhatIsLate) {
  RingTimeline ring(2, {4, 4, 4}, 0);
  const std::vector<TimedLayer> layers = {kStreamed, kStreamed, kStreamed};
  const RingTimeline::Step step = ring.run(0, 0, layers, 0);
  // 1, waits until 4, 6; 7, waits until 8, 10; 11, waits until 12 (8 + 4), 14.
  EXPECT_DOUBLE_EQ(step.end, 14);
  EXPECT_DOUBLE_EQ(step.exposed, 3 + 1 + 1);
}

TEST(RingTimeline, ASlotThatIsUsedForLongHoldsItsNextGatherUp) {
  RingTimeline ring(2, {3, 3, 3}, -6);
  const std::vector<TimedLayer> layers = {{.outside = 0, .experts = 10, .streamed = true},
                                          {.outside = 0, .experts = 1, .streamed = true},
                                          {.outside = 0, .experts = 1, .streamed = true}};
  // The third gather begins at 10, when the first layer ends, and is there at 13; the second ends at 11.
  const RingTimeline::Step step = ring.run(0, 0, layers, 0);
  EXPECT_DOUBLE_EQ(step.end, 14);
  EXPECT_DOUBLE_EQ(step.exposed, 2);
}

// Turns one by one: when each gather begins and ends, from the definition.
TEST(RingTimeline, AgreesWithItsDefinition) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> seconds(0, 2);
  for (int32_t slots = 2; slots <= 4; ++slots) {
    std::vector<TimedLayer> layers;
    std::vector<double> gathers;
    for (int i = 0; i < 6; ++i) {
      layers.push_back({.outside = seconds(random), .experts = seconds(random), .streamed = i != 2});
      if (layers.back().streamed) gathers.push_back(2 * seconds(random));
    }
    RingTimeline ring(slots, gathers, 0);
    std::vector<double> ready;
    std::vector<double> released;
    double now = 0;
    for (int step = 0; step < 5; ++step) {
      const double begin = now;
      for (const TimedLayer& layer : layers) {
        now += layer.outside;
        if (!layer.streamed) {
          now += layer.experts;
          continue;
        }
        const size_t turn = ready.size();
        const double slot_free = turn < static_cast<size_t>(slots) ? 0 : released[turn - static_cast<size_t>(slots)];
        const double link_free = turn == 0 ? 0 : ready.back();
        ready.push_back(std::max(slot_free, link_free) + gathers[turn % gathers.size()]);
        now = std::max(now, ready.back()) + layer.experts;
        released.push_back(now);
      }
      EXPECT_NEAR(ring.run(begin, 0, layers, 0).end, now, 1e-9) << slots << " slots, step " << step;
      now += step == 2 ? 50 : 0;  // a pause
    }
  }
}

}  // namespace
}  // namespace zp
