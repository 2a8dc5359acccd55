// Is UTF-8 judged as Unicode does, and is ASCII whitespace alone stripped?
#include "zp/task/text_check.h"

#include <gtest/gtest.h>

#include "zp/base/utf8.h"

namespace zp {
namespace {

TEST(TextCheck, AcceptsValidSequencesOfEveryLength) {
  EXPECT_FALSE(find_invalid_utf8(""));
  EXPECT_FALSE(find_invalid_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
  EXPECT_FALSE(find_invalid_utf8("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"));
}

TEST(TextCheck, NamesTheOffsetOfTheFirstInvalidSequence) {
  EXPECT_EQ(find_invalid_utf8("ab\xFFz"), 2u);
  EXPECT_EQ(find_invalid_utf8("\xC3\xA9\xC3"), 2u);              // cut short
  EXPECT_EQ(find_invalid_utf8("a\xC0\xAF"), 1u);                 // overlong
  EXPECT_EQ(find_invalid_utf8("a\xE0\x9F\xBF"), 1u);             // overlong
  EXPECT_EQ(find_invalid_utf8("a\xF0\x8F\xBF\xBF"), 1u);         // overlong
  EXPECT_EQ(find_invalid_utf8("\xE2\x82\xAC\xED\xA0\x80"), 3u);  // surrogate
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u);          // above U+10FFFF
}

TEST(TextCheck, StripsAsciiWhitespaceOnly) {
  EXPECT_EQ(strip_trailing_whitespace(" a \t\r\n\f\v"), " a");
  EXPECT_EQ(strip_trailing_whitespace(" \n"), "");
  EXPECT_EQ(strip_trailing_whitespace("a\xC2\xA0"), "a\xC2\xA0");  // a no-break space stays
  EXPECT_EQ(strip_whitespace("\n a b \n"), "a b");
  EXPECT_EQ(strip_whitespace(""), "");
}

}  // namespace
}  // namespace zp
