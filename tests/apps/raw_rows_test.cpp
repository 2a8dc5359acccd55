// `zeroprefill run` without a task: requests as they are, made-up ones, and random models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/apps/program.h"
#include "tests/support/temporary_folder.h"

namespace zp {
namespace {

using nlohmann::json;
using test::Finished;
using test::lines_of;
using test::read_file;
using test::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDemo = std::string(ZP_SOURCE_DIR) + "/models/demo-moe";
const std::string kRandom =
    "run --threads 1 --model random:" + std::string(ZP_SOURCE_DIR) + "/tests/data/models/aligned_bf16 --dtype f32 ";

Finished run(const std::string& arguments) { return test::run_program(arguments); }

TEST(RawRows, IdsAndTextsAreAnsweredAlike) {
  const TemporaryFolder folder;
  const std::string text = folder.write("texts.txt", "What is it?\n");
  const Finished ids = run("tokenize --tokenizer " + kDemo + " <" + text);
  ASSERT_EQ(ids.exit_code, 0) << ids.err;
  const json with_text = {{"id", "text"}, {"context", "What is it?"}, {"candidates", {3, 4}}};
  const json with_ids = {{"tokens", json::parse(ids.out)}, {"candidates", {3, 4}}};
  const std::string rows = folder.write("rows.jsonl", with_text.dump() + "\n" + with_ids.dump() + "\n");
  const Finished finished = run("run --model " + kDemo + " --input " + rows);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const std::vector<json> answers = lines_of(finished.out);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].at("id"), "text");
  EXPECT_EQ(answers[1].at("id"), 1);
  EXPECT_EQ(answers[0].at("logits"), answers[1].at("logits"));
  // All that README.md says there is.
  std::set<std::string> keys;
  for (const auto& [key, value] : answers[0].items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"id", "best", "logits", "logprobs", "vocab_logprobs", "prompt_tokens",
                                         "cached_tokens"}));
  const auto logits = answers[0].at("logits").get<std::vector<double>>();
  EXPECT_EQ(answers[0].at("best"), logits[0] >= logits[1] ? 0 : 1);
  double total = 0;
  for (const json& logprob : answers[0].at("logprobs")) total += std::exp(logprob.get<double>());
  EXPECT_NEAR(total, 1, 1e-6);
}

TEST(RawRows, ABadRowIsNamedAndTheRestGoesOn) {
  const TemporaryFolder folder;
  const std::string rows = folder.write("rows.jsonl",
                                        "{\"tokens\": [1, -2], \"candidates\": [1]}\n"
                                        "{\"tokens\": [1, 999], \"candidates\": [1]}\n"
                                        "{\"tokens\": 5, \"candidates\": [1]}\n"
                                        "{\"tokens\": [1], \"context\": \"x\", \"candidates\": [1]}\n"
                                        "{\"tokens\": [1]}\n"
                                        "{\"context\": \"x\", \"candidates\": [1]}\n"
                                        "{\"tokens\": [1], \"candidates\": []}\n"
                                        "{\"tokens\": [1], \"candidates\": [2]}\n");
  const Finished finished = run(kRandom + "--input " + rows);
  EXPECT_EQ(finished.exit_code, 3) << finished.err;
  const std::vector<json> answers = lines_of(finished.out);
  ASSERT_EQ(answers.size(), 8U);
  const std::vector<std::string> messages = {"-2",           "999",          "is no list",  "'tokens' or 'context'",
                                             "'candidates'", "no tokenizer", "0 candidates"};
  for (size_t i = 0; i < messages.size(); ++i)
    EXPECT_THAT(answers[i].at("error").at("message").get<std::string>(), HasSubstr(messages[i]));
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].at("id"), i);
  EXPECT_EQ(answers[7].at("logits").size(), 1U);
}

TEST(RawRows, AMessageShowsLittleOfALongValue) {
  const TemporaryFolder folder;
  const std::string text(1000, 'x');
  const std::string rows = folder.write("rows.jsonl", "{\"tokens\": [\"" + text + "\"], \"candidates\": [1]}\n");
  const Finished finished = run(kRandom + "--input " + rows);
  ASSERT_EQ(lines_of(finished.out).size(), 1U) << finished.err;
  EXPECT_THAT(lines_of(finished.out)[0].at("error").at("message").get<std::string>(),
              HasSubstr("column 'tokens' has '\"" + text.substr(0, 59) + "...', which is no token id"));
  const std::string with_text =
      folder.write("text.jsonl", "{\"context\": \"a\", \"candidates\": [\"" + text + "\"]}\n");
  const Finished asked = run("run --model " + kDemo + " --input " + with_text);
  ASSERT_EQ(lines_of(asked.out).size(), 1U) << asked.err;
  EXPECT_THAT(lines_of(asked.out)[0].at("error").at("message").get<std::string>(),
              HasSubstr("candidate '" + text.substr(0, 60) + "...' is not one token"));
}

TEST(RawRows, AListNestedDeeperThanTheStackIsOneRowsError) {
  const TemporaryFolder folder;
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string rows = folder.write("rows.csv", "tokens,candidates\n" + deep + ",[1]\n[1]," + deep + "\n[1],[2]\n");
  const Finished finished = run(kRandom + "--input " + rows);
  const auto answers = lines_of(finished.out);
  ASSERT_EQ(answers.size(), 3U) << finished.err;
  for (const int i : {0, 1})
    EXPECT_THAT(answers[i].at("error").at("message").get<std::string>(), HasSubstr("an array, which is no token id"));
  EXPECT_TRUE(answers[2].contains("logits"));
}

TEST(RawRows, AnEmptyFileSaysNothingOfRoutes) {
  const TemporaryFolder folder;
  const std::string rows = folder.write("rows.jsonl", "");
  const Finished finished = run(kRandom + "--input " + rows);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, Not(HasSubstr("random routes")));
}

// As tables are written that have a column for each of them.
TEST(RawRows, ANullIsAColumnThatIsNotThere) {
  const TemporaryFolder folder;
  const std::string rows = folder.write("rows.jsonl",
                                        "{\"id\": null, \"tokens\": [1], \"context\": null, \"candidates\": [2]}\n"
                                        "{\"id\": \"b\", \"tokens\": null, \"context\": null, \"candidates\": [2]}\n");
  const Finished finished = run(kRandom + "--input " + rows);
  EXPECT_EQ(finished.exit_code, 3) << finished.err;
  const std::vector<json> answers = lines_of(finished.out);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].at("id"), 0);
  EXPECT_EQ(answers[0].at("logits").size(), 1U);
  EXPECT_EQ(answers[1].at("id"), "b");
  EXPECT_THAT(
      answers[1].at("error").at("message").get<std::string>(),
      HasSubstr("'tokens' (null), 'context' (null); it must have 'candidates', and either 'tokens' or 'context'"));
}

TEST(RawRows, PriorityAndDeadlineAreWholeNumbersWithinLimits) {
  const TemporaryFolder folder;
  const auto row = [](const std::string& more) { return "{\"tokens\": [1], \"candidates\": [2], " + more + "}\n"; };
  const std::string rows = folder.write(
      "rows.jsonl", row(R"("priority": 2147483648)") + row(R"("priority": 1.5)") + row(R"("priority": "high")") +
                        row(R"("deadline_ms": -1)") + row(R"("deadline_ms": 31622400001)") +
                        row(R"("priority": -2147483648, "deadline_ms": 31622400000)") +
                        row(R"("priority": null, "deadline_ms": null)"));
  const Finished finished = run(kRandom + "--input " + rows);
  EXPECT_EQ(finished.exit_code, 3) << finished.err;
  const std::vector<json> answers = lines_of(finished.out);
  ASSERT_EQ(answers.size(), 7U);
  const std::vector<std::string> messages = {
      "line 1: column 'priority' has '2147483648'; it must be a whole number in [-2147483648, 2147483647]",
      "line 2: column 'priority' has '1.5'", "line 3: column 'priority' has 'high'",
      "line 4: column 'deadline_ms' has '-1'; it must be a whole number in [0, 31622400000]",
      "line 5: column 'deadline_ms' has '31622400001'"};
  for (size_t i = 0; i < messages.size(); ++i)
    EXPECT_THAT(answers[i].at("error").at("message").get<std::string>(), HasSubstr(messages[i]));
  for (const size_t good : {5, 6}) EXPECT_TRUE(answers[good].contains("logits")) << good;
  // A table's empty field is none.
  const std::string table =
      folder.write("rows.csv", "tokens,candidates,priority,deadline_ms\n[1],[2],,\n[1],[2],1,5\n");
  EXPECT_EQ(run(kRandom + "--input " + table).exit_code, 0);
}

// The last two rows have the same 64 tokens: whoever goes first computes them. Both have arrived by then, however late
// the last row is read, for there is work for several steps of a slow device before them, and it is longer.
TEST(RawRows, PriorityAndDeadlineDecideWhoGoesFirst) {
  const TemporaryFolder folder;
  const auto row = [](int first, int count, const json& more) {
    json made = {{"tokens", json::array()}, {"candidates", {2}}};
    for (int i = 0; i < count; ++i) made["tokens"].push_back((first + i) % 90);
    made.update(more);
    return made.dump() + "\n";
  };
  std::string before;
  for (int i = 0; i < 6; ++i) before += row(3 + i, 400, json::object());
  const auto cached = [&](const json& first, const json& second) {
    const std::string rows = folder.write("rows.jsonl", before + row(2, 65, first) + row(2, 65, second));
    const Finished finished = run(kRandom + "--pace 1GFLOP/s --step-target 400 --input " + rows);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    std::vector<int64_t> tokens;
    for (const json& answer : lines_of(finished.out)) tokens.push_back(answer.at("cached_tokens"));
    return std::vector<int64_t>(tokens.end() - std::min<ptrdiff_t>(2, std::ssize(tokens)), tokens.end());
  };
  using Tokens = std::vector<int64_t>;
  EXPECT_EQ(cached(json::object(), json::object()), (Tokens{0, 64}));
  EXPECT_EQ(cached(json::object(), {{"priority", 1}}), (Tokens{64, 0}));
  EXPECT_EQ(cached({{"priority", -1}}, json::object()), (Tokens{64, 0}));
  EXPECT_EQ(cached(json::object(), {{"deadline_ms", 0}}), (Tokens{64, 0}));
}

TEST(RawRows, SyntheticRequestsAreThoseOfTheSeedWhereverExpertsLive) {
  const TemporaryFolder folder;
  const std::string summary = folder.path() / "summary.json";
  const Finished first = run(kRandom + "--synthetic 5x40 --expert-skew 2 --summary " + summary);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(lines_of(first.out).size(), 5U);
  const json figures = json::parse(read_file(summary));
  EXPECT_EQ(figures.at("prompt_tokens"), 200);
  EXPECT_EQ(figures.at("routes").at("asked_skew"), 2);
  EXPECT_EQ(figures.at("routes").at("tokens"), 200);
  EXPECT_GT(figures.at("routes").at("skew_mean").get<double>(), 1);
  EXPECT_THAT(first.err, HasSubstr("asked: 2"));
  EXPECT_EQ(run(kRandom + "--synthetic 5x40 --expert-skew 2 --ranks 2 --experts gathered").out, first.out);
  EXPECT_NE(run(kRandom + "--synthetic 5x40 --expert-skew 2 --random-seed 2").out, first.out);
}

TEST(RawRows, OptionsThatContradictAreNamed) {
  EXPECT_THAT(run(kRandom).err, HasSubstr("--input or --synthetic"));
  EXPECT_THAT(run(kRandom + "--synthetic 3").err, HasSubstr("'3'"));
  EXPECT_THAT(run(kRandom + "--synthetic 0x3").err, HasSubstr("'0x3'"));
  EXPECT_THAT(run(kRandom + "--synthetic 3x4 --task /nonexistent.yaml").err, HasSubstr("--synthetic"));
  EXPECT_THAT(run("run --model random:GLM-4.5 --synthetic 1x1").err, HasSubstr("GLM-4.5"));
  EXPECT_THAT(run("run --model " + kDemo + " --layers 2 --synthetic 1x1").err, HasSubstr("random models alone"));
}

}  // namespace
}  // namespace zp
