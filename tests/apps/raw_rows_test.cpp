// `zeroprefill run` without a task: requests as they are, made-up ones, and random models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/apps/program.h"
#include "tests/support/temporary_folder.h"

namespace zp {
namespace {

using nlohmann::json;
using test::Finished;
using test::read_file;
using test::TemporaryFolder;
using ::testing::HasSubstr;

const std::string kDemo = std::string(ZP_SOURCE_DIR) + "/models/demo-moe";
const std::string kRandom =
    "run --threads 1 --model random:" + std::string(ZP_SOURCE_DIR) + "/tests/data/models/aligned_bf16 --dtype f32 ";

Finished run(const std::string& arguments) { return test::run_program(arguments); }

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

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
  EXPECT_EQ(answers[7].at("logits").size(), 1U);
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
