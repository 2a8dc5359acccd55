// Memory plans add up, print their numbers and refuse what does not fit.
#include "zp/engine/memory_plan.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace zp {
namespace {

MemoryPlan plan_of(uint64_t limit) {
  return {.items = {{"experts", uint64_t{3} << 30}, {"activations", uint64_t{512} << 20}},
          .limit_bytes = limit,
          .limit_source = "a test"};
}

TEST(MemoryPlan, AddsUp) { EXPECT_EQ(plan_of(0).total_bytes(), (uint64_t{7} << 29)); }

TEST(MemoryPlan, FitsUpToItsLimitAndNotAByteFurther) {
  require_fits(plan_of(uint64_t{7} << 29), "");
  test::expect_error(
      [] { require_fits(plan_of((uint64_t{7} << 29) - 1), "Eat less"); }, ErrorCode::kOutOfMemory,
      {"1 B more", "experts", "3.00 GiB", "activations", "512.00 MiB", "3.50 GiB", "a test", "Eat less"});
}

}  // namespace
}  // namespace zp
