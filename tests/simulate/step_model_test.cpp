// Step times against hand-computed ones.
#include "zp/simulate/step_model.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace zp {
namespace {

constexpr StepModel kModel{.layers = 10,
                           .streamed_layers = 8,
                           .transfer_seconds = 5e-3,
                           .rates = {.attention = 1e12, .dense = 2e12, .expert = 4e12},
                           .expert_read_seconds = 1e-3};

TEST(RankTimeline, ComputeHidesTheTransfer) {
  // 1 + 2 + 3 ms a layer.
  RankTimeline rank(kModel);
  for (int64_t start_ns : {0, 60'000'000, 120'000'000}) {
    const StepTime time = rank.run(start_ns, {.tokens = 9, .attention = 1e9, .dense = 4e9, .expert = 12e9}, 1);
    EXPECT_EQ(time.compute_ns, 60'000'000);
    EXPECT_EQ(time.exposed_ns, 0);
  }
}

// 0.5 + 0 + 1.5 ms a layer against 5 ms: from the second step on the link never rests, and a step takes its 8 gathers.
TEST(RankTimeline, StepsTooSmallTakeAsLongAsTheirTransfers) {
  RankTimeline rank(kModel);
  const RequestCost cost{.tokens = 9, .attention = 5e8, .dense = 0, .expert = 6e9};
  int64_t start_ns = 0;
  StepTime time;
  for (int step = 0; step < 3; ++step) {
    time = rank.run(start_ns, cost, 1);
    start_ns += time.total_ns();
    EXPECT_EQ(time.compute_ns, 20'000'000);
  }
  EXPECT_EQ(time.total_ns(), 40'000'000);
}

// Two of the eight gathers were there, and the third began when the first slot was free: at 6 ms, the end of layer 2.
TEST(RankTimeline, AnIdleRanksSlotsAreFull) {
  RankTimeline rank(kModel);
  const RequestCost cost{.tokens = 9, .attention = 5e8, .dense = 0, .expert = 6e9};
  const int64_t first_ns = rank.run(1'000'000'000, cost, 1).total_ns();
  EXPECT_EQ(first_ns, 6'000'000 + 6 * 5'000'000 + 1'500'000);
  EXPECT_EQ(rank.run(2'000'000'000, cost, 1).total_ns(), first_ns) << "again after a pause";
}

TEST(RankTimeline, ExpertsAreReadHoweverFewTheTokens) {
  StepModel resident = kModel;
  resident.streamed_layers = 0;
  const StepTime time = RankTimeline(resident).run(0, {.tokens = 1, .attention = 0, .dense = 0, .expert = 1e6}, 1);
  EXPECT_EQ(time.compute_ns, 10'000'000);
  EXPECT_EQ(time.exposed_ns, 0);
}

TEST(RankTimeline, AddsWhatStepsAndRequestsTakeBesides) {
  StepModel model = kModel;
  model.step_seconds = 2e-3;
  model.request_seconds = 0.5e-3;
  const StepTime time = RankTimeline(model).run(0, {.tokens = 9, .attention = 1e9, .dense = 4e9, .expert = 12e9}, 3);
  EXPECT_EQ(time.compute_ns, 63'500'000);
}

// 2^63 ns are 9.2e9 s.
TEST(RankTimeline, AStepThatEndsTooLateForTheClockIsAnError) {
  StepModel model = kModel;
  model.step_seconds = 4e9;
  const RequestCost cost{.tokens = 9, .attention = 0, .dense = 0, .expert = 6e9};
  RankTimeline rank(model);
  const int64_t end_ns = rank.run(0, cost, 1).total_ns();
  EXPECT_GT(end_ns, 4'000'000'000'000'000'000);
  EXPECT_EQ(rank.run(end_ns, cost, 1).compute_ns / 1'000'000'000, 4'000'000'000);
  test::expect_error([&] { (void)rank.run(2 * end_ns, cost, 1); }, ErrorCode::kInvalidArgument,
                     {"1.2e+10 s", "the limit is 9e+09 s"});
}

}  // namespace
}  // namespace zp
