// Memory plans add up, print their numbers and refuse what does not fit.
#include "zp/engine/memory_plan.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/fake_gpu.h"
#include "zp/device/cpu/cpu_device.h"

namespace zp {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

// 3.5 GiB on each of two ranks, 5 MiB on the host.
EngineMemory memory_of(uint64_t rank_limit, uint64_t host_limit) {
  return {.ranks = 2,
          .rank = {.items = {{"experts", 3 * kGiB}, {"activations", 512 * kMiB}},
                   .limit_bytes = rank_limit,
                   .limit_source = "a test"},
          .host = {.items = {{"tokenizer", 5 * kMiB}}, .limit_bytes = host_limit, .limit_source = "another test"}};
}

TEST(MemoryPlan, AddsUp) {
  EXPECT_EQ(memory_of(0, 0).rank.total_bytes(), 7 * kGiB / 2);
  EXPECT_EQ(memory_of(0, 0).total_bytes(), 7 * kGiB + 5 * kMiB);
}

// Rings of 4 x 16 MiB (docs/notes/cuda_ops.md).
TEST(MemoryPlan, HasTheLockedMemoryOfEachObjectThatSendsMetadata) {
  MemoryPlan host = memory_of(0, 0).host;
  plan_metadata(test::FakeGpu(), 6, host);
  EXPECT_EQ(host.total_bytes(), 5 * kMiB + 6 * 64 * kMiB);
  EXPECT_EQ(host.items.back().consumer, "metadata of operations");
  MemoryPlan unchanged = memory_of(0, 0).host;
  plan_metadata(cpu::CpuDevice(0, 1), 6, unchanged);
  EXPECT_EQ(unchanged.items.size(), 1U) << "a CPU reads what the host has";
}

TEST(MemoryPlan, LeavesNothingWhenItDoesNotFit) {
  EXPECT_EQ(left_bytes(memory_of(4 * kGiB, 0).rank), kGiB / 2);
  EXPECT_EQ(left_bytes(memory_of(3 * kGiB, 0).rank), 0U);
}

TEST(MemoryPlan, FitsUpToItsLimitsAndNotAByteFurther) {
  require_fits(memory_of(7 * kGiB / 2, 5 * kMiB), "");
  test::expect_error([] { require_fits(memory_of(7 * kGiB / 2 - 1, 5 * kMiB), "Eat less"); }, ErrorCode::kOutOfMemory,
                     {"2 B more", "each of 2 ranks", "experts", "3.00 GiB", "activations", "512.00 MiB", "3.50 GiB",
                      "a test", "Eat less"});
  test::expect_error([] { require_fits(memory_of(7 * kGiB / 2, 5 * kMiB - 1), ""); }, ErrorCode::kOutOfMemory,
                     {"1 B more", "tokenizer", "5.00 MiB", "another test"});
}

}  // namespace
}  // namespace zp
