// Are texts cut where Hugging Face tokenizers cuts them?
#include "zp/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tokenizer/fixtures.h"
#include "zp/tokenizer/byte_alphabet.h"
#include "zp/tokenizer/json_view.h"

namespace zp::tokenizer {
namespace {

class Collector final : public WordSink {
 public:
  void on_word(std::string_view word) override { words.push_back(alphabet_.to_characters(word)); }
  std::vector<std::string> words;

 private:
  ByteAlphabet alphabet_;
};

TEST(PreTokenizer, CutsAsHuggingFaceDoes) {
  const auto rows = test::read_rows("pre_tokenizers.jsonl");
  EXPECT_GE(rows.size(), 78);
  RegexScratch scratch;
  for (const auto& row : rows) {
    SCOPED_TRACE(row.at("pre_tokenizer").dump());
    simdjson::dom::parser parser;
    const std::string json = row.at("pre_tokenizer").dump();
    const auto pre_tokenizer = PreTokenizer::parse(JsonView(parser.parse(json), "pre_tokenizer"));
    for (const auto& test_case : row.at("cases")) {
      Collector collector;
      pre_tokenizer.split(test_case.at(0).get<std::string>(), scratch, collector);
      EXPECT_EQ(collector.words, test_case.at(1).get<std::vector<std::string>>()) << test_case.at(0).dump();
    }
  }
}

}  // namespace
}  // namespace zp::tokenizer
