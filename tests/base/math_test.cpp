#include "zp/base/math.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace zp {
namespace {

static_assert(ceil_div(0, 16) == 0);
static_assert(ceil_div(std::size_t{33}, std::size_t{16}) == 3);
static_assert(round_up(33, 16) == 48);

TEST(Math, CeilDivRoundsUpAroundATile) {
  EXPECT_EQ(ceil_div(0, 16), 0);
  EXPECT_EQ(ceil_div(1, 16), 1);
  EXPECT_EQ(ceil_div(15, 16), 1);
  EXPECT_EQ(ceil_div(16, 16), 1);
  EXPECT_EQ(ceil_div(17, 16), 2);
  EXPECT_EQ(ceil_div(7, 1), 7);
}

TEST(Math, CeilDivHoldsOffsetsBeyond32Bits) {
  EXPECT_EQ(ceil_div(int64_t{5'000'000'001}, int64_t{2}), int64_t{2'500'000'001});
}

TEST(Math, RoundUpKeepsMultiplesAndLiftsTheRest) {
  EXPECT_EQ(round_up(0, 16), 0);
  EXPECT_EQ(round_up(1, 16), 16);
  EXPECT_EQ(round_up(16, 16), 16);
  EXPECT_EQ(round_up(17, 16), 32);
}

TEST(Math, DivExactDivides) {
  EXPECT_EQ(div_exact(0, 16), 0);
  EXPECT_EQ(div_exact(48, 16), 3);
}

TEST(MathDeathTest, DivExactAbortsOnARestAndNamesBothValues) {
  EXPECT_DEATH((void)div_exact(50, 16), "50 is no multiple of 16");
}

TEST(MathDeathTest, DivExactAbortsOnADivisorOfZero) { EXPECT_DEATH((void)div_exact(50, 0), "50 is no multiple of 0"); }

}  // namespace
}  // namespace zp
