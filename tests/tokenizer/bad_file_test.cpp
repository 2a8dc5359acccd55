// Is every file that is broken, or that asks for what is not implemented, refused by name?
#include <gtest/gtest.h>

#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/tokenizer/fixtures.h"
#include "zp/tokenizer/tokenizer.h"

namespace zp {
namespace {

using nlohmann::json;
using test::expect_error;

const json& base() {
  static const json value = json::parse(test::read_fixture("base.json"));
  return value;
}

/// Expects that the base tokenizer is refused once the value at a JSON pointer is another.
void expect_refused(const char* pointer, const json& value, ErrorCode code,
                    std::initializer_list<std::string_view> parts) {
  SCOPED_TRACE(std::string(pointer) + " = " + value.dump());
  json changed = base();
  changed[json::json_pointer(pointer)] = value;
  expect_error([&] { (void)Tokenizer::parse(changed.dump()); }, code, parts);
}

json split(const json& pattern, const char* behavior = "Isolated") {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}};
}

json added(int id, const char* content, bool normalized = false) {
  return {{"id", id},        {"content", content}, {"single_word", false},    {"lstrip", false},
          {"rstrip", false}, {"special", false},   {"normalized", normalized}};
}

json nested(const char* type, const char* key, int depth, json inner) {
  for (int i = 0; i < depth; ++i) inner = {{"type", type}, {key, json::array({inner})}};
  return inner;
}

TEST(BadFile, BaseIsGood) { EXPECT_NO_THROW((void)Tokenizer::parse(base().dump())); }

TEST(BadFile, UnknownPartsAreNamed) {
  constexpr ErrorCode kCode = ErrorCode::kUnsupported;
  expect_refused("/version", "2.0", kCode, {"version", "2.0"});
  expect_refused("/new_part", 1, kCode, {"new_part"});
  expect_refused("/truncation", {{"max_length", 8}}, kCode, {"truncation"});
  expect_refused("/padding", {{"pad_id", 8}}, kCode, {"padding"});
  expect_refused("/pre_tokenizer", nullptr, kCode, {"pre_tokenizer"});
  expect_refused("/pre_tokenizer", {{"type", "Metaspace"}}, kCode, {"pre_tokenizer", "Metaspace"});
  expect_refused("/pre_tokenizer/new_option", true, kCode, {"new_option"});
  expect_refused("/pre_tokenizer", {{"type", "Digits"}, {"individual_digits", true}}, kCode, {"ByteLevel"});
  expect_refused("/pre_tokenizer",
                 {{"type", "Sequence"}, {"pretokenizers", {base()["pre_tokenizer"], base()["pre_tokenizer"]}}}, kCode,
                 {"pretokenizers[1]", "last"});
  expect_refused("/pre_tokenizer", split({{"Regex", "\\bx"}}), kCode, {"\\bx"});
  expect_refused("/pre_tokenizer", split({{"Regex", ""}}), kCode, {"empty"});
  expect_refused("/pre_tokenizer", split({{"String", ""}}), kCode, {"empty"});
  expect_refused("/pre_tokenizer", split({{"String", "a"}}, "Dropped"), kCode, {"Dropped"});
  expect_refused("/normalizer", {{"type", "Nmt"}}, kCode, {"normalizer", "Nmt"});
  expect_refused("/normalizer", {{"type", "NFC"}, {"x", 1}}, kCode, {"'x'"});
  expect_refused("/post_processor", {{"type", "New"}}, kCode, {"post_processor", "New"});
  expect_refused("/decoder", {{"type", "WordPiece"}}, kCode, {"decoder", "WordPiece"});
}

TEST(BadFile, ModelOptionsWithAnEffectAreNamed) {
  constexpr ErrorCode kCode = ErrorCode::kUnsupported;
  expect_refused("/model/type", "Unigram", kCode, {"model.type", "Unigram"});
  expect_refused("/model/dropout", 0.1, kCode, {"model.dropout", "0.1"});
  expect_refused("/model/continuing_subword_prefix", "##", kCode, {"continuing_subword_prefix", "##"});
  expect_refused("/model/end_of_word_suffix", "</w>", kCode, {"end_of_word_suffix", "</w>"});
  expect_refused("/model/byte_fallback", true, kCode, {"byte_fallback"});
  expect_refused("/model/new_option", true, kCode, {"new_option"});
  expect_refused("/model/vocab/huge", 1 << 23, kCode, {"model.vocab", "8388608", "limit"});
}

TEST(BadFile, NestingHasALimit) {
  constexpr ErrorCode kCode = ErrorCode::kUnsupported;
  expect_refused("/pre_tokenizer", nested("Sequence", "pretokenizers", 20, base()["pre_tokenizer"]), kCode, {"deeply"});
  expect_refused("/normalizer", nested("Sequence", "normalizers", 20, {{"type", "NFC"}}), kCode, {"deeply"});
  expect_refused("/decoder", nested("Sequence", "decoders", 20, {{"type", "Fuse"}}), kCode, {"deeply"});
  expect_refused("/post_processor", nested("Sequence", "processors", 20, base()["pre_tokenizer"]), kCode, {"deeply"});
}

TEST(BadFile, ValuesOfTheWrongTypeAreNamed) {
  constexpr ErrorCode kCode = ErrorCode::kCorrupt;
  expect_refused("/model", json::array(), kCode, {"model", "object"});
  expect_refused("/model/vocab", json::array(), kCode, {"model.vocab"});
  expect_refused("/model/vocab/x", "1", kCode, {"model.vocab", "token id"});
  expect_refused("/model/vocab/x", -1, kCode, {"model.vocab", "token id"});
  expect_refused("/model/merges", json::object(), kCode, {"model.merges"});
  expect_refused("/model/fuse_unk", "yes", kCode, {"fuse_unk"});
  expect_refused("/added_tokens", json::object(), kCode, {"added_tokens"});
  expect_refused("/added_tokens", json::array({{{"id", 500}}}), kCode, {"added_tokens[0]", "content"});
  expect_refused("/pre_tokenizer/type", 7, kCode, {"pre_tokenizer.type"});
  expect_refused("/pre_tokenizer", json::object(), kCode, {"pre_tokenizer", "type"});
  expect_refused("/pre_tokenizer", split(json::object()), kCode, {"Regex", "String"});
}

TEST(BadFile, TokensThatContradictEachOtherAreNamed) {
  constexpr ErrorCode kCode = ErrorCode::kCorrupt;
  expect_refused("/model/vocab/new", 5, kCode, {"id 5", "new"});
  expect_refused("/model/merges/0", json::array({"x", "absent"}), kCode, {"model.merges[0]", "absent"});
  expect_refused("/model/merges/0", json::array({"x", "y", "z"}), kCode, {"model.merges[0]"});
  expect_refused("/model/merges/0", json::array({"x", 7}), kCode, {"model.merges[0]"});
  expect_refused("/model/merges/0", json::array({"!", "~"}), kCode, {"model.merges[0]", "!~"});
  expect_refused("/model/merges/0", "x", kCode, {"model.merges[0]"});
  expect_refused("/model/merges/0", "x y z", kCode, {"model.merges[0]"});
  expect_refused("/model/unk_token", "absent", kCode, {"unk_token", "absent"});
  expect_refused("/added_tokens", json::array({added(501, "<a>")}), kCode, {"added_tokens[0]", "501", "500"});
  expect_refused("/added_tokens", json::array({added(7, "!")}), kCode, {"added_tokens[0]", "7"});
  expect_refused("/added_tokens", {added(500, "<a>"), added(501, "<a>")}, kCode, {"added_tokens[1]", "<a>", "before"});
  expect_error(
      [] {
        (void)Tokenizer::parse(R"({"model":{"vocab":{"a":0,"a":1},"merges":[]},"pre_tokenizer":
      {"type":"ByteLevel","add_prefix_space":false}})");
      },
      kCode, {"'a' twice"});
}

TEST(BadFile, AddedTokensMustDifferOnceNormalized) {
  json changed = base();
  changed["normalizer"] = {{"type", "Lowercase"}};
  changed["added_tokens"] = {added(500, "<A>", true), added(501, "<a>", true)};
  expect_error([&] { (void)Tokenizer::parse(changed.dump()); }, ErrorCode::kCorrupt, {"<a>", "normalized"});
  changed["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "<A>"}}}, {"content", ""}};
  expect_error([&] { (void)Tokenizer::parse(changed.dump()); }, ErrorCode::kCorrupt, {"<A>", "nothing"});
}

TEST(BadFile, TemplatesMustHoldTogether) {
  const json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto with = [&](const json& single, const json& specials = json::object()) {
    return json{
        {"type", "TemplateProcessing"}, {"single", single}, {"pair", json::array()}, {"special_tokens", specials}};
  };
  const json special = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  expect_refused("/post_processor", with(json::array({sequence, special})), ErrorCode::kCorrupt,
                 {"special_tokens", "<s>"});
  expect_refused("/post_processor", with(json::array({{{"Sequence", {{"id", "B"}}}}})), ErrorCode::kCorrupt, {"'B'"});
  expect_refused("/post_processor", with(json::array({json::object()})), ErrorCode::kCorrupt, {"single[0]"});
  expect_refused("/post_processor",
                 {{"type", "Sequence"}, {"processors", {with(json::array({sequence})), with(json::array({sequence}))}}},
                 ErrorCode::kUnsupported, {"processors[1]", "second template"});
  expect_refused("/post_processor", {{"type", "BertProcessing"}, {"sep", {"x"}}, {"cls", {"y", 1}}},
                 ErrorCode::kCorrupt, {"sep"});
}

TEST(BadFile, EveryTruncationIsRefused) {
  const std::string whole = base().dump();
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    expect_error([&] { (void)Tokenizer::parse(std::string_view(whole).substr(0, size)); }, ErrorCode::kCorrupt,
                 {"not valid JSON"});
  }
  expect_error([&] { (void)Tokenizer::parse(whole + "x"); }, ErrorCode::kCorrupt, {"not valid JSON"});
  expect_error([] { (void)Tokenizer::parse("[]"); }, ErrorCode::kCorrupt, {"object"});
}

TEST(BadFile, FilesThatAreNotThereAreNamed) {
  const test::TemporaryFolder folder;
  expect_error([&] { (void)Tokenizer::load(folder.path() / "absent.json"); }, ErrorCode::kNotFound, {"absent.json"});
  expect_error([&] { (void)Tokenizer::load(folder.path()); }, ErrorCode::kNotFound, {"tokenizer.json"});
  std::ofstream(folder.path() / "tokenizer.json") << "{}";
  expect_error([&] { (void)Tokenizer::load(folder.path()); }, ErrorCode::kUnsupported,
               {"tokenizer.json", "pre_tokenizer"});
  std::ofstream(folder.path() / "tokenizer.json") << base().dump();
  EXPECT_NO_THROW((void)Tokenizer::load(folder.path()));
  std::ofstream(folder.path() / "tokenizer_config.json") << "{";
  expect_error([&] { (void)Tokenizer::load(folder.path()); }, ErrorCode::kCorrupt, {"tokenizer_config.json"});
}

}  // namespace
}  // namespace zp
