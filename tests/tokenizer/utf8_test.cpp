// Is UTF-8 checked and repaired as the Unicode standard says?
#include "zp/tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <string>

#include "zp/base/utf8.h"

namespace zp::tokenizer {
namespace {

TEST(Utf8, EveryCodePointSurvives) {
  for (char32_t value = 0; value < 0x110000; ++value) {
    if (value >= 0xD800 && value <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, value);
    const CodePoint point = decode_valid(text, 0);
    ASSERT_EQ(point.value, value);
    ASSERT_EQ(point.size_bytes, text.size());
    ASSERT_EQ(step_back(text, text.size()), 0);
    ASSERT_EQ(find_invalid_utf8(text), std::nullopt);
  }
}

TEST(Utf8, RepairsEveryMaximalPartByOneReplacement) {
  // Table 3-8 and its neighbours of the Unicode standard.
  EXPECT_EQ(repair_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(repair_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(repair_utf8("\xED\xA0\x80\xED\xBF\xBF"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(repair_utf8("\xF4\x91\x92\x93\xFF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(repair_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(repair_utf8("é中"), "é中");
}

TEST(Utf8, NamesTheFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8("é\xE4\xBD"), 2);
  EXPECT_EQ(find_invalid_utf8(std::string(1000, 'a') + "\xFF"), 1000);
  EXPECT_EQ(find_invalid_utf8(""), std::nullopt);
}

}  // namespace
}  // namespace zp::tokenizer
