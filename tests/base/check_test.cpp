#include "zp/base/check.h"

#include <gtest/gtest.h>

namespace zp {
namespace {

TEST(CheckDeathTest, FailureNamesTheFileTheExpressionAndBothValues) {
  const int rows = 3;
  const int tokens = 4;
  EXPECT_DEATH(ZP_CHECK(rows == tokens, "rows {} != tokens {}", rows, tokens),
               "check_test.cpp:[0-9]+: check failed: rows == tokens: rows 3 != tokens 4");
}

TEST(Check, PassesWithoutFormattingItsMessage) {
  int formatted = 0;
  const auto value = [&formatted] { return ++formatted; };
  ZP_CHECK(true, "{}", value());
  EXPECT_EQ(formatted, 0);
}

TEST(Check, EvaluatesItsConditionOnce) {
  int evaluated = 0;
  ZP_CHECK(++evaluated == 1, "evaluated {} times", evaluated);
  EXPECT_EQ(evaluated, 1);
}

TEST(Check, IsOneStatementSoThatElseBelongsToTheOuterIf) {
  bool reached_else = false;
  if (reached_else)
    ZP_CHECK(true, "unused");
  else
    reached_else = true;
  EXPECT_TRUE(reached_else);
}

}  // namespace
}  // namespace zp
