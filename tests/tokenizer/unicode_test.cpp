// Does every code point belong to the classes, and have the normal forms, that it has for Hugging Face tokenizers?
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tokenizer/fixtures.h"
#include "zp/tokenizer/normal_form.h"
#include "zp/tokenizer/regex.h"
#include "zp/tokenizer/regex_translate.h"
#include "zp/tokenizer/unicode_data.h"
#include "zp/tokenizer/utf8.h"

namespace zp::tokenizer {
namespace {

constexpr char32_t kEnd = 0x110000;
using Ranges = std::vector<std::vector<uint32_t>>;

bool is_surrogate(char32_t value) { return value >= 0xD800 && value <= 0xDFFF; }

std::string utf8(char32_t value) {
  std::string text;
  append_utf8(text, value);
  return text;
}

const nlohmann::json& fixture() {
  static const nlohmann::json value = nlohmann::json::parse(test::read_fixture("unicode.json"));
  return value;
}

// The code points that a pattern of one class matches, found in one text that holds them all.
Ranges matched(const std::string& pattern) {
  std::string all;
  for (char32_t value = 0; value < kEnd; ++value) {
    if (!is_surrogate(value)) append_utf8(all, value);
  }
  Ranges ranges;
  RegexScratch scratch;
  const Regex regex(pattern);
  MatchIterator matches(regex, all, scratch);
  while (const auto match = matches.next()) {
    const auto value = static_cast<uint32_t>(decode_valid(all, match->begin).value);
    if (!ranges.empty() && ranges.back()[1] + 1 == value) {
      ranges.back()[1] = value;
    } else {
      ranges.push_back({value, value});
    }
  }
  return ranges;
}

TEST(Unicode, ClassesOfPatternsHoldWhatOnigurumaSays) {
  EXPECT_GE(fixture().at("classes").size(), 34);
  for (const auto& [pattern, expected] : fixture().at("classes").items()) {
    EXPECT_EQ(matched(translate_pattern(pattern)), expected.get<Ranges>()) << pattern;
  }
}

TEST(Unicode, DigitsAreWhatHuggingFaceSays) {
  const std::string members = category_members("N") + range_members(extra_numeric());
  EXPECT_EQ(matched("[" + members + "]"), fixture().at("numeric").get<Ranges>());
}

class Forms : public ::testing::TestWithParam<std::pair<const char*, NormalForm>> {};

TEST_P(Forms, AreWhatHuggingFaceSays) {
  const NormalFormer former(GetParam().second);
  const auto block = fixture().at("block").get<uint32_t>();
  const auto contexts = fixture().at("contexts").get<std::vector<std::string>>();
  const auto sums = fixture().at("normal_forms").at(GetParam().first).get<std::vector<uint32_t>>();
  ASSERT_EQ(sums.size(), kEnd / block);
  for (char32_t begin = 0; begin < kEnd; begin += block) {
    std::string text;
    for (char32_t value = begin; value < begin + block; ++value) {
      if (is_surrogate(value)) continue;
      for (std::string context : contexts) {
        text += former.apply(context.replace(context.find("%s"), 2, utf8(value)));
      }
    }
    EXPECT_EQ(test::crc32(text), sums[begin / block]) << "block from U+" << std::hex << static_cast<uint32_t>(begin);
  }
}

INSTANTIATE_TEST_SUITE_P(Unicode, Forms,
                         ::testing::Values(std::pair("NFC", NormalForm::kNfc), std::pair("NFD", NormalForm::kNfd),
                                           std::pair("NFKC", NormalForm::kNfkc), std::pair("NFKD", NormalForm::kNfkd)),
                         [](const auto& form) { return std::string(form.param.first); });

TEST(NormalForm, SortsHostileRunsOfMarksQuickly) {
  // 2^18 marks that all have to pass each other: quadratic time would take minutes.
  std::string text = "a";
  std::string sorted = "a";
  for (int i = 0; i < (1 << 17); ++i) text += "\u0334\u0316", text.insert(1, "\u0301");
  for (int i = 0; i < (1 << 17); ++i) sorted += "\u0334";
  for (int i = 0; i < (1 << 17); ++i) sorted += "\u0316";
  for (int i = 0; i < (1 << 17); ++i) sorted += "\u0301";
  EXPECT_EQ(NormalFormer(NormalForm::kNfd).apply(text), sorted);
}

TEST(NormalForm, PlainTextIsSeenToBePlain) {
  const NormalFormer former(NormalForm::kNfc);
  for (const std::string text : {"", "Hello", "naïve Übung", "中文 测试", "Привет", "한국어", "こんにちは"}) {
    EXPECT_EQ(former.find_unplain(text, 0), text.size()) << text;
  }
  EXPECT_EQ(former.find_unplain("ae\u0301", 0), 2);
  EXPECT_EQ(former.find_unplain("\u212b", 0), 0);
  EXPECT_EQ(former.find_unplain("가\u11a8", 0), 3);
}

}  // namespace
}  // namespace zp::tokenizer
