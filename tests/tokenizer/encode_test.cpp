// What do encoding and decoding promise beyond the ids of good text: bad input, edges, threads?
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/errors.h"
#include "tests/tokenizer/fixtures.h"
#include "zp/tokenizer/normal_form.h"
#include "zp/tokenizer/tokenizer.h"
#include "zp/tokenizer/utf8.h"

namespace zp {
namespace {

using Ids = std::vector<int32_t>;

class Encode : public ::testing::Test {
 protected:
  std::unique_ptr<Tokenizer> qwen_ = Tokenizer::load(test::fixture_path("qwen_small"));
  std::unique_ptr<Tokenizer> gpt2_ = Tokenizer::load(test::fixture_path("gpt2_small/tokenizer.json"));
};

// Seeded text that mixes scripts, marks, white space and the pieces of special tokens.
std::string random_text(std::mt19937& random) {
  static constexpr char32_t kFirst[] = {0x20, 0x20, 0xA0, 0x300, 0x1100, 0x3040, 0x4E00, 0xAC00, 0x1F600, 0x11D40};
  std::string text;
  const auto size = random() % 30;
  for (uint32_t i = 0; i < size; ++i) {
    if (random() % 8 == 0) {
      text += random() % 2 == 0 ? "<|im_end|>" : "<|im";
    } else {
      tokenizer::append_utf8(text, static_cast<char32_t>(kFirst[random() % std::size(kFirst)] + random() % 90));
    }
  }
  return text;
}

TEST_F(Encode, EmptyTextIsNoTokens) {
  EXPECT_EQ(qwen_->encode(""), Ids());
  EXPECT_EQ(qwen_->decode({}), "");
  EXPECT_EQ(gpt2_->encode("", {.add_special_tokens = true}).size(), 2);
}

TEST_F(Encode, InvalidUtf8IsRefusedWithItsOffset) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"ab\xC3", "byte 2 of 3"},            // truncated
      {"\xE4\xBD", "byte 0 of 2"},          // truncated
      {"\xC0\xAF", "byte 0 of 2"},          // overlong
      {"x\xE0\x80\xAF", "byte 1 of 4"},     // overlong
      {"xy\xED\xA0\x80", "byte 2 of 5"},    // a surrogate
      {"\xF4\x90\x80\x80", "byte 0 of 4"},  // past U+10FFFF
      {"é\x80", "byte 2 of 3"},             // a stray continuation
      {"a\xFF", "byte 1 of 2"},
  };
  for (const auto& [text, place] : cases) {
    test::expect_error([&] { (void)qwen_->encode(text); }, ErrorCode::kInvalidArgument, {"not valid UTF-8", place});
  }
}

TEST_F(Encode, IdsOutOfRangeAreRefusedByName) {
  const std::string size = std::to_string(qwen_->size());
  for (const int32_t id : {-1, qwen_->size(), INT32_MAX, INT32_MIN}) {
    test::expect_error(
        [&] {
          (void)qwen_->decode(Ids{0, id});
        },
        ErrorCode::kInvalidArgument, {std::to_string(id), size});
    EXPECT_EQ(qwen_->id_to_token(id), std::nullopt);
  }
}

TEST_F(Encode, TokensAndIdsAreInverse) {
  for (const auto* tokenizer : {qwen_.get(), gpt2_.get()}) {
    for (int32_t id = 0; id < tokenizer->size(); ++id) {
      const auto token = tokenizer->id_to_token(id);
      ASSERT_TRUE(token.has_value()) << id;
      EXPECT_EQ(tokenizer->token_to_id(*token), id) << *token;
    }
  }
  EXPECT_EQ(qwen_->token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(qwen_->token_to_id(""), std::nullopt);
}

TEST_F(Encode, DecodingGivesTheNormalizedTextBack) {
  std::mt19937 random(20);
  const tokenizer::NormalFormer nfc(tokenizer::NormalForm::kNfc);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_text(random);
    const std::string plain = qwen_->decode(qwen_->encode(text, {.parse_special = false}));
    EXPECT_EQ(plain, nfc.apply(text));
    EXPECT_EQ(gpt2_->decode(gpt2_->encode(text)), text);
  }
}

TEST_F(Encode, IdsOfATextAreThoseOfItsPartsAroundASpecialToken) {
  std::mt19937 random(21);
  const Ids special = qwen_->encode("<|im_start|>");
  ASSERT_EQ(special.size(), 1);
  for (int i = 0; i < 500; ++i) {
    const std::string left = random_text(random);
    const std::string right = random_text(random);
    Ids expected = qwen_->encode(left);
    expected.push_back(special[0]);
    const Ids tail = qwen_->encode(right);
    expected.insert(expected.end(), tail.begin(), tail.end());
    EXPECT_EQ(qwen_->encode(left + "<|im_start|>" + right), expected);
  }
}

TEST_F(Encode, SpecialTokensInTextCanBeLeftText) {
  const int32_t end = qwen_->token_to_id("<|im_end|>").value();
  EXPECT_EQ(qwen_->encode("a<|im_end|>").back(), end);
  const Ids plain = qwen_->encode("a<|im_end|>", {.parse_special = false});
  EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
  EXPECT_EQ(qwen_->decode(plain), "a<|im_end|>");
  EXPECT_EQ(qwen_->decode(qwen_->encode("a<|im_end|>b<think>"), true), "ab<think>");
}

TEST_F(Encode, BytesThatAreNoCharacterDecodeToTheReplacementCharacter) {
  Ids ids = gpt2_->encode("龘");  // rare enough to be several tokens
  ASSERT_GT(ids.size(), 1);
  ids.pop_back();
  EXPECT_EQ(gpt2_->decode(ids), "\uFFFD");
}

TEST_F(Encode, ConfigurationNamesTokens) {
  EXPECT_EQ(qwen_->eos_id(), qwen_->token_to_id("<|im_end|>"));
  EXPECT_EQ(qwen_->pad_id(), qwen_->token_to_id("<|endoftext|>"));
  EXPECT_EQ(qwen_->bos_id(), std::nullopt);
  EXPECT_EQ(gpt2_->eos_id(), std::nullopt);
}

TEST_F(Encode, WhiteSpaceTokensThatStripTakeLinearTime) {
  // Each of 2^20 matches strips all the white space around it: scanned anew each time that would take hours.
  auto changed = nlohmann::json::parse(test::read_fixture("base.json"));
  changed["added_tokens"] = {{{"id", 500},
                              {"content", " "},
                              {"single_word", false},
                              {"lstrip", true},
                              {"rstrip", true},
                              {"normalized", false},
                              {"special", false}},
                             {{"id", 501},
                              {"content", "\t"},
                              {"single_word", false},
                              {"lstrip", true},
                              {"rstrip", false},
                              {"normalized", false},
                              {"special", false}}};
  const auto tokenizer = Tokenizer::parse(changed.dump());
  EXPECT_EQ(tokenizer->encode(std::string(1 << 20, ' ')), Ids{500});
  EXPECT_EQ(tokenizer->encode(std::string(1 << 20, '\t')), Ids(1 << 20, 501));
}

TEST_F(Encode, ThreadsAgree) {
  std::mt19937 random(22);
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (int i = 0; i < 300; ++i) texts.push_back(random_text(random) + " naïveté 中文字");
  const auto fresh = Tokenizer::load(test::fixture_path("qwen_small"));
  for (const std::string& text : texts) expected.push_back(fresh->encode(text));
  std::vector<std::thread> threads;
  std::vector<int> differences(4);
  for (std::size_t t = 0; t < differences.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::size_t at = (i * 7 + t * 31) % texts.size();
        differences[t] += qwen_->encode(texts[at]) != expected[at];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::accumulate(differences.begin(), differences.end(), 0), 0);
}

}  // namespace
}  // namespace zp
