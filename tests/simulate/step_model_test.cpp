// Step times against hand-computed ones.
#include "zp/simulate/step_model.h"

#include <gtest/gtest.h>

namespace zp {
namespace {

constexpr StepModel kModel{.layers = 10,
                           .streamed_layers = 8,
                           .transfer_seconds = 5e-3,
                           .rates = {.attention = 1e12, .dense = 2e12, .expert = 4e12},
                           .expert_read_seconds = 1e-3};

TEST(StepTime, ComputeHidesTheTransfer) {
  // 1 + 2 + 3 ms a layer.
  const StepTime time = step_time(kModel, {.tokens = 9, .attention = 1e9, .dense = 4e9, .expert = 12e9});
  EXPECT_EQ(time.compute_ns, 60'000'000);
  EXPECT_EQ(time.exposed_ns, 0);
}

TEST(StepTime, WhatComputeDoesNotHideIsExposedInStreamedLayers) {
  // 0.5 + 0 + 1.5 ms a layer: 3 ms late in 8 layers.
  const StepTime time = step_time(kModel, {.tokens = 9, .attention = 5e8, .dense = 0, .expert = 6e9});
  EXPECT_EQ(time.compute_ns, 20'000'000);
  EXPECT_EQ(time.exposed_ns, 24'000'000);
  EXPECT_EQ(time.total_ns(), 44'000'000);
}

TEST(StepTime, ExpertsAreReadHoweverFewTheTokens) {
  StepModel resident = kModel;
  resident.streamed_layers = 0;
  const StepTime time = step_time(resident, {.tokens = 1, .attention = 0, .dense = 0, .expert = 1e6});
  EXPECT_EQ(time.compute_ns, 10'000'000);
  EXPECT_EQ(time.exposed_ns, 0);
}

}  // namespace
}  // namespace zp
