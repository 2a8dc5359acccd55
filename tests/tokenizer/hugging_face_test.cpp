// Are ids and texts those of Hugging Face tokenizers, for whole tokenizers and for small changes to one?
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tests/tokenizer/expectations.h"
#include "tests/tokenizer/fixtures.h"
#include "zp/tokenizer/tokenizer.h"

namespace zp {
namespace {

using test::crc32;
using test::expect_row;
using test::fixture_path;
using test::read_fixture;
using test::read_rows;

class SmallTokenizer : public ::testing::TestWithParam<const char*> {
 protected:
  void expect_rows(std::string_view file, std::size_t rows_min) const {
    const auto rows = read_rows(std::string(GetParam()) + "/" + std::string(file));
    EXPECT_GE(rows.size(), rows_min);
    for (const auto& row : rows) {
      expect_row(*tokenizer_, row);
      if (HasFailure()) return;  // one difference says enough
    }
  }

  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load(fixture_path(GetParam()));
};

TEST_P(SmallTokenizer, AgreesOnDeclarationsInManyLanguages) { expect_rows("udhr.jsonl", 350); }
TEST_P(SmallTokenizer, AgreesOnNaughtyStrings) { expect_rows("blns.jsonl", 500); }
TEST_P(SmallTokenizer, AgreesOnRandomUnicode) { expect_rows("random.jsonl", 600); }

TEST_P(SmallTokenizer, AgreesOnWordsOfOneMebibyte) {
  for (const auto& row : read_rows(std::string(GetParam()) + "/long_words.jsonl")) {
    std::string word(1 << 20, 'a');
    if (row.at("name") == "random") {
      uint32_t state = 1;
      for (char& letter : word) {
        state = (state * 1103515245U + 12345U) % (1U << 31);
        letter = static_cast<char>('a' + (state >> 16) % 26);
      }
    }
    const auto ids = tokenizer_->encode(word);
    EXPECT_EQ(ids.size(), row.at("count"));
    std::string joined;
    for (const int32_t id : ids) joined += (joined.empty() ? "" : ",") + std::to_string(id);
    EXPECT_EQ(crc32(joined), row.at("crc32")) << row.at("name");
    EXPECT_EQ(tokenizer_->decode(ids), word);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SmallTokenizer, ::testing::Values("qwen_small", "gpt2_small"),
                         [](const auto& shape) { return std::string(shape.param); });

TEST(Variants, AgreeWithHuggingFace) {
  const auto base = nlohmann::json::parse(read_fixture("base.json"));
  const auto rows = read_rows("variants.jsonl");
  EXPECT_GE(rows.size(), 22);
  for (const auto& row : rows) {
    SCOPED_TRACE(row.at("name").get<std::string>());
    nlohmann::json changed = base;
    for (const auto& [part, value] : row.at("changes").items()) {
      if (part == "model") {
        changed["model"].update(value);
      } else {
        changed[part] = value;
      }
    }
    const auto tokenizer = Tokenizer::parse(changed.dump());
    for (const auto& test_case : row.at("cases")) expect_row(*tokenizer, test_case);
  }
}

}  // namespace
}  // namespace zp
