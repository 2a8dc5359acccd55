// Are scores exact in double precision, and are answers the JSON that was promised?
#include "zp/task/answer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/task/task_test_util.h"

namespace zp {
namespace {

using ::testing::HasSubstr;

ItemResult result(std::vector<double> logits, double log_sum_exp) {
  return {.logits = std::move(logits), .log_sum_exp = log_sum_exp, .prompt_tokens = 90, .cached_tokens = 64};
}

Scores scores(const ItemResult& item) { return std::get<Scores>(score_candidates(item, item.logits.size())); }

std::string fault(const ItemResult& item, std::size_t candidate_count) {
  const auto scored = score_candidates(item, candidate_count);
  if (!std::holds_alternative<RowError>(scored)) return "";
  EXPECT_EQ(std::get<RowError>(scored).code, ErrorCode::kCorrupt);
  return std::get<RowError>(scored).message;
}

TaskSpec spec(const std::string& choices) {
  return parse_task_spec("{form: choice, instructions: Q, input: '{{t}}', choices: " + choices + "}", "task.yaml");
}

// Expected values: Python's decimal module with 50 digits, l = [12.5, 11, -3.25], lse = 12.75.
TEST(Scores, EqualFiftyDigitArithmetic) {
  const Scores s = scores(result({12.5, 11.0, -3.25}, 12.75));
  EXPECT_EQ(s.best, 0u);
  const std::vector<double> probabilities = {0.817574379607126, 0.18242550225499118, 1.181378828257318e-07};
  const std::vector<double> logprobs = {-0.2014133961206422, -1.7014133961206421, -15.951413396120643};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(s.probabilities[i], probabilities[i], 4e-16 * probabilities[i] + 1e-22);
    EXPECT_DOUBLE_EQ(s.logprobs[i], logprobs[i]);
  }
  EXPECT_THAT(s.vocab_logprobs, testing::ElementsAre(-0.25, -1.75, -16.0));
  EXPECT_DOUBLE_EQ(s.label_mass, 0.9525748390570247);
}

TEST(Scores, LargeLogitsNeitherOverflowNorLoseTheSmallOnes) {
  const Scores s = scores(result({1000.0, 0.0, -1e5}, 1000.0));
  EXPECT_EQ(s.probabilities[0], 1.0);
  EXPECT_EQ(s.probabilities[1], 0.0);
  EXPECT_EQ(s.logprobs[1], -1000.0);
  EXPECT_EQ(s.vocab_logprobs[2], -101000.0);
  EXPECT_EQ(s.label_mass, 1.0);
}

TEST(Scores, TheLowestIndexWinsATie) {
  EXPECT_EQ(scores(result({1.0, 2.0, 2.0, 2.0}, 9.0)).best, 1u);
  EXPECT_EQ(scores(result({0.0, -0.0}, 9.0)).best, 0u);
}

TEST(Scores, RoundingOfTheSumIsCutOffAtOne) {
  const Scores s = scores(result({5.0, -200.0}, 5.0 - 1e-6));
  EXPECT_EQ(s.label_mass, 1.0);
  EXPECT_EQ(s.vocab_logprobs[0], 0.0);
}

TEST(Scores, ASumBelowTheCandidatesOwnIsAnError) {
  EXPECT_THAT(fault(result({5.0, 5.0}, 5.0), 2), HasSubstr("log-sum-exp over the vocabulary, 5, is below"));
}

TEST(Scores, NumbersThatAreNotFiniteAreErrors) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(fault(result({1.0, nan}, 9.0), 2), "the logit of candidate 1 is nan, not a finite number");
  EXPECT_THAT(fault(result({inf, 1.0}, 9.0), 2), HasSubstr("candidate 0 is inf"));
  EXPECT_THAT(fault(result({1.0, -inf}, 9.0), 2), HasSubstr("candidate 1 is -inf"));
  EXPECT_THAT(fault(result({1.0, 1.0}, nan), 2), HasSubstr("the log-sum-exp of the logits is nan"));
  EXPECT_THAT(fault(result({1.0, 1.0}, inf), 2), HasSubstr("the log-sum-exp of the logits is inf"));
}

TEST(Scores, AnotherNumberOfLogitsIsAnError) {
  EXPECT_EQ(fault(result({1.0}, 9.0), 2), "the engine returned 1 logits for 2 candidates");
  EXPECT_EQ(fault(result({}, 9.0), 0), "the engine returned 0 logits for 0 candidates");
}

TEST(AnswerLine, IsThisLine) {
  const ItemResult item = result({0.0, 0.0}, 1.0);
  EXPECT_EQ(answer_line(spec("[a, \"b\\\"\"]"), RowId(int64_t{3}), scores(item), item),
            R"({"id":3,"answer":"a","probabilities":{"a":0.5,"b\"":0.5},)"
            R"("logprobs":{"a":-0.6931471805599453,"b\"":-0.6931471805599453},)"
            R"("vocab_logprobs":{"a":-1.0,"b\"":-1.0},"label_mass":0.7357588823428847,)"
            R"("prompt_tokens":90,"cached_tokens":64})");
}

TEST(AnswerLine, AnswersHaveTheTypeTheyHaveInTheTaskFile) {
  const auto answer = [](const std::string& choices) {
    const ItemResult item = result({1.0, 0.0}, 2.0);
    return nlohmann::json::parse(answer_line(spec(choices), RowId("x"), scores(item), item));
  };
  EXPECT_EQ(answer("[7, b]").at("answer"), 7);
  EXPECT_TRUE(answer("[7, b]").at("answer").is_number_integer());
  EXPECT_EQ(answer("[1.50, b]").at("answer"), 1.5);
  EXPECT_TRUE(answer("[1.50, b]").at("probabilities").contains("1.50"));
  EXPECT_EQ(answer("[True, b]").at("answer"), true);
  EXPECT_EQ(answer("['7', b]").at("answer"), "7");
  EXPECT_EQ(answer("[yes, b]").at("answer"), "yes");
  EXPECT_EQ(answer("[1e999, b]").at("answer"), "1e999");
  EXPECT_EQ(answer("[12345678901234567890, b]").at("answer"), "12345678901234567890");
  EXPECT_EQ(answer("[7, b]").at("id"), "x");
}

TEST(AnswerLine, APredicateAnswersTrueOrFalse) {
  const TaskSpec predicate = parse_task_spec("{form: predicate, instructions: Q, input: '{{t}}'}", "task.yaml");
  const ItemResult item = result({0.0, 1.0}, 2.0);
  const auto json = nlohmann::json::parse(answer_line(predicate, RowId(int64_t{0}), scores(item), item));
  EXPECT_EQ(json.at("answer"), false);
  EXPECT_GT(json.at("probabilities").at("false"), json.at("probabilities").at("true"));
}

TEST(ErrorLine, IsThisLine) {
  EXPECT_EQ(error_line(RowId("caf\xC3\xA9\n"), {.code = ErrorCode::kNotFound, .message = "no 'x'"}),
            "{\"id\":\"caf\xC3\xA9\\n\",\"error\":{\"code\":\"not_found\",\"message\":\"no 'x'\"}}");
}

TEST(ErrorLine, SurvivesAMessageThatIsNotUtf8) {
  EXPECT_THAT(error_line(RowId(int64_t{1}), {.code = ErrorCode::kIo, .message = "\xFF"}), HasSubstr("\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace zp
