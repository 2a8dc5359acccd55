// Is a text read as a whole number only if all of it is one, within its limits?
#include "zp/base/whole_number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace zp {
namespace {

TEST(ToWholeNumber, ReadsDecimalDigits) {
  EXPECT_EQ(to_whole_number<int64_t>("0"), 0);
  EXPECT_EQ(to_whole_number<int64_t>("12"), 12);
  EXPECT_EQ(to_whole_number<int64_t>("-12"), -12);
  EXPECT_EQ(to_whole_number<int32_t>("010"), 10) << "not octal";
}

TEST(ToWholeNumber, RefusesAllElse) {
  for (const char* text : {"", "-", "+1", " 1", "1 ", "1.5", "1e3", "0x10", "12x", "x", "1,000", "--1"})
    EXPECT_FALSE(to_whole_number<int64_t>(text)) << "'" << text << "'";
  EXPECT_FALSE(to_whole_number<int64_t>({}));
  EXPECT_FALSE(to_whole_number<int64_t>(std::string_view("1\0", 2)));
  EXPECT_FALSE(to_whole_number<uint64_t>("-1"));
}

TEST(ToWholeNumber, ReadsNoFurtherThanTheText) {
  EXPECT_EQ(to_whole_number<int64_t>(std::string_view("1234").substr(1, 2)), 23);
}

TEST(ToWholeNumber, KeepsTheLimitsOfItsType) {
  EXPECT_EQ(to_whole_number<int32_t>("2147483647"), INT32_MAX);
  EXPECT_FALSE(to_whole_number<int32_t>("2147483648"));
  EXPECT_EQ(to_whole_number<int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_FALSE(to_whole_number<int64_t>("-9223372036854775809"));
  EXPECT_EQ(to_whole_number<uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_FALSE(to_whole_number<uint64_t>("18446744073709551616"));
}

TEST(ToWholeNumber, KeepsTheGivenLimits) {
  EXPECT_FALSE(to_whole_number<int64_t>("-3", -2, 5));
  EXPECT_EQ(to_whole_number<int64_t>("-2", -2, 5), -2);
  EXPECT_EQ(to_whole_number<int64_t>("5", -2, 5), 5);
  EXPECT_FALSE(to_whole_number<int64_t>("6", -2, 5));
}

}  // namespace
}  // namespace zp
