// The comparator must fail on what it is there to catch.
#include "tests/support/compare.h"

#include <array>
#include <limits>

namespace zp::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

bool accepts(const std::vector<float>& actual, const std::vector<double>& expected, double bound,
             double aggregate = 1e9) {
  return static_cast<bool>(matches(
      actual, {.values = expected, .bounds = std::vector<double>(expected.size(), bound), .aggregate = aggregate}));
}

TEST(Compare, AcceptsEqualAndNearValues) {
  EXPECT_TRUE(accepts({1.0f, -2.0f, 0.0f}, {1.0, -2.0, 0.0}, 0.0));
  EXPECT_TRUE(accepts({1.01f, -2.01f}, {1.0, -2.0}, 0.02));
  EXPECT_TRUE(accepts({}, {}, 0.0));
}

TEST(Compare, RefusesWrongSign) { EXPECT_FALSE(accepts({1.0f}, {-1.0}, 0.1)); }

TEST(Compare, RefusesTwoNegativeValuesOutOfTolerance) {
  EXPECT_FALSE(accepts({-3.0f}, {-1.0}, 0.1));
  EXPECT_FALSE(accepts({-1.0f}, {-3.0}, 0.1));
}

TEST(Compare, RefusesNanAndInfinityElsewhere) {
  EXPECT_FALSE(accepts({kNan}, {1.0}, 1e30));
  EXPECT_FALSE(accepts({1.0f}, {static_cast<double>(kNan)}, 1e30));
  EXPECT_FALSE(accepts({kInf}, {1.0}, 1e30));
  EXPECT_FALSE(accepts({kInf}, {-static_cast<double>(kInf)}, 1e30));
  EXPECT_FALSE(accepts({kNan}, {static_cast<double>(kInf)}, 1e30));
}

TEST(Compare, AcceptsNanAndInfinityInTheirPlaces) {
  EXPECT_TRUE(accepts({kNan, kInf, -kInf, 1.0f},
                      {static_cast<double>(kNan), static_cast<double>(kInf), -static_cast<double>(kInf), 1.0}, 0.0));
}

TEST(Compare, RefusesZerosWhereValuesAreExpected) {
  // Element bounds so loose that only the aggregate can tell.
  EXPECT_FALSE(accepts({0.0f, 0.0f, 0.0f}, {1.0, -1.0, 2.0}, 10.0, 0.5));
}

TEST(Compare, RefusesValuesWhereZerosAreExpected) { EXPECT_FALSE(accepts({0.5f, 0.5f}, {0.0, 0.0}, 0.1)); }

TEST(Compare, RefusesOtherSizes) {
  EXPECT_FALSE(accepts({1.0f}, {1.0, 1.0}, 1.0));
  EXPECT_FALSE(accepts({1.0f, 1.0f}, {1.0}, 1.0));
}

TEST(Compare, RefusesABoundThatIsNan) {
  EXPECT_FALSE(accepts({1.0f}, {1.0}, std::numeric_limits<double>::quiet_NaN()));
}

TEST(Compare, RefusesASmallSystematicErrorByItsAggregate) {
  EXPECT_FALSE(accepts({1.01f, 1.01f, 1.01f}, {1.0, 1.0, 1.0}, 0.1, 0.001));
}

TEST(SameBytes, FindsTheFirstDifference) {
  const std::array<std::byte, 3> a{std::byte{1}, std::byte{2}, std::byte{3}};
  const std::array<std::byte, 3> b{std::byte{1}, std::byte{2}, std::byte{4}};
  EXPECT_TRUE(same_bytes(a, a));
  EXPECT_FALSE(same_bytes(a, b));
  EXPECT_FALSE(same_bytes(a, std::span(b).first(2)));
  EXPECT_NE(std::string(same_bytes(a, b).message()).find("byte 2"), std::string::npos);
}

}  // namespace
}  // namespace zp::test
