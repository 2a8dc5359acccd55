// Is every construct that the two libraries might read differently refused by name?
#include "zp/tokenizer/regex_translate.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/support/errors.h"
#include "zp/tokenizer/regex.h"

namespace zp::tokenizer {
namespace {

TEST(RegexTranslate, RefusesWhatItDoesNotKnow) {
  const std::string_view patterns[] = {"^a",        "a$",        "\\bword",
                                       "\\w+",      "\\W",       "\\h",
                                       "\\R",       "\\X",       "\\K",
                                       "\\A",       "\\z",       "\\Z",
                                       "\\G",       "(a)\\1",    "\\k<n>",
                                       "(?<n>a)",   "(?<=a)b",   "(?<!a)b",
                                       "(?m:a)",    "(?x) a",    "(?i)a",
                                       "(?#c)",     "(*VERB)",   "[[:alpha:]]",
                                       "[a[b]]",    "[a&&b]",    "[]a]",
                                       "[^]a]",     "\\p{Han}",  "\\p{Mn}",
                                       "\\p{C}",    "\\p{Cn}",   "\\pL",
                                       "\\p{L",     "[\\P{L}a]", "[\\D]",
                                       "[a-\\d]",   "[\\d-z]",   "[z-a]",
                                       "[a",        "(a",        "a)",
                                       "a{2}?",     "a{1,2}+",   "a**",
                                       "a{2}{3}",   "a+?+",      "*a",
                                       "a|*",       "{1}",       "a{",
                                       "a{x}",      "a{3,2}",    "a{1001}",
                                       "a{,}",      "\\x80",     "\\x{110000}",
                                       "\\x{D800}", "\\x{12",    "\\u12",
                                       "\\xg",      "\\é",       "\\",
                                       "a]",        "a}",        "(?i:[a-z])",
                                       "(?i:é)",    "(?i:ss)",   "(?i:f(?:x)?fi)",
                                       "(?i:st)",   "(?i:s+)",   "(?i:\\p{L})",
                                       "(?=a)*",    "(?!a)+"};
  for (const std::string_view pattern : patterns) {
    test::expect_error([&] { (void)translate_pattern(pattern); }, ErrorCode::kUnsupported, {pattern});
  }
}

TEST(RegexTranslate, RefusesDeepNesting) {
  EXPECT_NO_THROW((void)translate_pattern(std::string(60, '(') + "a" + std::string(60, ')')));
  test::expect_error([] { (void)translate_pattern(std::string(100000, '(')); }, ErrorCode::kUnsupported, {"deeply"});
}

TEST(RegexTranslate, WhatItTranslatesCompiles) {
  for (const std::string_view pattern :
       {"a|b|", "(?:)", "[-a]", "[a-]", "[a\\-z]", "[\\]]", "[^\\s\\S]", "\\t\\n\\v\\f\\r\\a\\e", "a{2,}", "a{,3}",
        "\\.", "#x", "a b", "(?i:it's)", "[\\x00-\\x{10FFFF}]", "(?!a)b", "(?>a|ab)c"}) {
    EXPECT_NO_THROW(Regex(translate_pattern(pattern))) << pattern;
  }
}

TEST(RegexTranslate, LiteralTextMatchesItself) {
  const std::string text = "a.b*[c]\\ é中 \t(?:|)^$";
  RegexScratch scratch;
  const auto match = Regex(literal_pattern(text)).find("xx" + text + "yy", 0, scratch);
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->begin, 2);
  EXPECT_EQ(match->end, 2 + text.size());
}

}  // namespace
}  // namespace zp::tokenizer
