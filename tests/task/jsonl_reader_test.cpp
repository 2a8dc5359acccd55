// Is each line one checked object, and are all others errors of their own row?
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/task/task_test_util.h"

namespace zp {
namespace {

using test::read_rows;
using test::show;
using test::show_all;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string one(const std::string& line) {
  const std::vector<Row> rows = read_rows(RowFormat::kJsonLines, line);
  return rows.size() == 1 ? show(rows[0]) : "rows: " + std::to_string(rows.size());
}

TEST(JsonlReader, TurnsEveryKindOfValueIntoText) {
  EXPECT_EQ(one(R"({"s":"a\u00e9\n\"","i":-12,"f":1.50,"e":1E5,"big":123456789012345678901234567890,"t":true,"n":""})"),
            "s=a\xC3\xA9\n\"|i=-12|f=1.50|e=1E5|big=123456789012345678901234567890|t=true|n=");
  EXPECT_EQ(one("{}"), "");
}

TEST(JsonlReader, AColumnThatIsNullHasNoValue) {
  const auto rows = read_rows(RowFormat::kJsonLines, "{\"a\": null, \"b\": \"null\", \"c\" :null }\n{\"a\":null}x\n");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(show(rows[0]), "b=null");
  EXPECT_EQ(rows[0].nulls, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(rows[0].find("a"), nullptr);
  EXPECT_TRUE(rows[0].is_null("a"));
  EXPECT_FALSE(rows[0].is_null("b"));
  EXPECT_EQ(describe_columns(rows[0]), "'b', 'a' (null), 'c' (null)");
  EXPECT_TRUE(rows[1].error && rows[1].nulls.empty());
  EXPECT_EQ(one(R"({"a":null,"a":1})"), "error: line 1: the row names 'a' twice; names must be distinct");
}

TEST(JsonlReader, WritesNestedValuesAsCompactJson) {
  EXPECT_EQ(one(R"({"o": { "a" : [ 1 , 2.0, null , "x\u000a\u00e9" ] , "b" : { } , "c" : [ ] , "d\t" : false } })"),
            "o={\"a\":[1,2.0,null,\"x\\n\xC3\xA9\"],\"b\":{},\"c\":[],\"d\\t\":false}");
}

TEST(JsonlReader, CountsLinesAndSkipsBlankOnes) {
  const auto rows = read_rows(RowFormat::kJsonLines, "\xEF\xBB\xBF{\"a\":1}\r\n\n  \t\r\n{\"a\":2}");
  ASSERT_EQ(show_all(rows), (std::vector<std::string>{"a=1", "a=2"}));
  EXPECT_EQ(rows[0].line, 1);
  EXPECT_EQ(rows[1].line, 4);
  EXPECT_EQ(rows[1].index, 1);
}

TEST(JsonlReader, GoesOnAfterEveryBadRow) {
  const auto rows = read_rows(RowFormat::kJsonLines, "{\"a\":1}\n{\"a\":\n{\"a\":\"\xFF\"}\n[1]\n{\"a\":5}\n");
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(show(rows[0]), "a=1");
  EXPECT_THAT(show(rows[1]), HasSubstr("line 2: the row is not valid JSON"));
  EXPECT_EQ(show(rows[2]), "error: line 3: the row is not UTF-8 at its byte 6");
  EXPECT_EQ(show(rows[3]), "error: line 4: the row must be a JSON object, but is '[1]'");
  EXPECT_EQ(show(rows[4]), "a=5");
  EXPECT_TRUE(rows[2].columns.empty());
}

TEST(JsonlReader, RefusesWhatIsNotJson) {
  for (const char* line : {"{",
                           "}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{'a':1}",
                           "{\"a\":1}}",
                           "{\"a\":1} x",
                           "{\"a\":1}{}",
                           "{\"a\":01}",
                           "{\"a\":+1}",
                           "{\"a\":.5}",
                           "{\"a\":1.}",
                           "{\"a\":NaN}",
                           "{\"a\":nul}",
                           "{\"a\":nulls}",
                           "{\"a\":truefalse}",
                           "{\"a\":[1 2]}",
                           "{\"a\":[1,]}",
                           "{\"a\":[}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":\"\\ud800\"}",
                           "{\"a\":\"\t\"}",
                           "{\"a\":\"b}",
                           "{\"a\":{\"b\":tru}}",
                           "{\"a\":1 \"b\":2}",
                           "{\"a\":[[1]}",
                           "{,}",
                           "{\"a\":1,,}",
                           "nulll",
                           "\"a\"",
                           "12",
                           "null"}) {
    EXPECT_THAT(one(line), testing::StartsWith("error: line 1: the row ")) << line;
  }
}

TEST(JsonlReader, AgreesWithNlohmannOnRandomlyDamagedObjects) {
  // Oracle: what the reader accepts, nlohmann accepts as an object too, and the other way round (names are distinct).
  const std::string good = R"({"a": "x\u00e9\\", "b": [1, -2.5e3, true, {"c": null}], "d": {"e": "f"}})";
  uint64_t state = 20240611;
  const auto random = [&state](uint64_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % below;
  };
  const std::string alphabet = "{}[],:\"\\ 0123e-.tnfu\x01\xC3";
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string line = good;
    for (uint64_t edits = 1 + random(3); edits > 0; --edits) {
      const std::size_t at = random(line.size());
      switch (random(3)) {
        case 0: line.erase(at, 1 + random(4)); break;
        case 1: line.insert(at, 1, alphabet[random(alphabet.size())]); break;
        default: line[at] = alphabet[random(alphabet.size())]; break;
      }
    }
    const auto parsed = nlohmann::json::parse(line, nullptr, false);
    const std::string shown = one(line);
    const bool is_good = !shown.starts_with("error: ");
    if (shown.find("twice") != std::string::npos) continue;
    EXPECT_EQ(is_good, parsed.is_object()) << line << "\n" << shown;
    accepted += is_good ? 1 : 0;
  }
  EXPECT_GT(accepted, 1000);
}

TEST(JsonlReader, RefusesANameGivenTwice) {
  EXPECT_EQ(one(R"({"a":1,"\u0061":2})"), "error: line 1: the row names 'a' twice; names must be distinct");
}

TEST(JsonlReader, BoundsNesting) {
  const auto nested = [](int depth) { return "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}"; };
  EXPECT_EQ(one(nested(64)), "a=" + std::string(64, '[') + std::string(64, ']'));
  EXPECT_EQ(one(nested(65)), "error: line 1: the row nests values deeper than the limit of 64");
  EXPECT_THAT(one(nested(200000)), HasSubstr("error: "));
}

TEST(JsonlReader, BoundsColumns) {
  const auto object = [](std::size_t count) {
    std::string text = "{\"c\":0";
    for (std::size_t i = 1; i < count; ++i) text += fmt::format(",\"{}\":0", i);
    return text + "}";
  };
  EXPECT_THAT(one(object(kMaxColumns)), testing::StartsWith("c=0|1=0"));
  EXPECT_EQ(one(object(kMaxColumns + 1)), "error: line 1: the row has more columns than the limit of 16384");
}

TEST(JsonlReader, BoundsTheRowAndGoesOn) {
  const std::string exact = "{\"a\":\"" + std::string(12, 'x') + "\"}";  // 20 bytes
  const auto rows =
      read_rows(RowFormat::kJsonLines, exact + "\r\n" + exact + " \n" + std::string(200000, ' ') + "\n{\"a\":3}\n",
                {.row_bytes_max = 20});
  EXPECT_THAT(show_all(rows),
              ElementsAre("a=xxxxxxxxxxxx", "error: line 2: the row has more bytes than the limit of 20",
                          "error: line 3: the row has more bytes than the limit of 20", "a=3"));
}

}  // namespace
}  // namespace zp
