// The built program from the outside: exit codes, messages, and files that hold what they should.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
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
using test::lines_of;
using test::read_file;
using test::TemporaryFolder;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kRoot = ZP_SOURCE_DIR;
const std::string kModel = kRoot + "/models/demo-moe";

Finished run(const std::string& arguments) { return test::run_program(arguments); }

std::string run_task(const std::string& task, const std::string& input) {
  return "run --model " + kModel + " --task " + task + " --input " + input + " ";
}

std::string intent_task() { return kRoot + "/examples/tasks/intent.yaml"; }

TEST(CommandLine, AnswersEveryRowInInputOrder) {
  const TemporaryFolder folder;
  const std::string summary = folder.path() / "summary.json";
  const std::string rows = kRoot + "/examples/rows/intent.jsonl";
  const Finished finished = run(run_task(intent_task(), rows) + "--summary " + summary);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, EndsWith("120 rows: 120 answered, 0 failed\n"));
  const auto answers = lines_of(finished.out);
  const auto input = lines_of(read_file(rows));
  ASSERT_EQ(answers.size(), input.size());
  int64_t right = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  for (size_t i = 0; i < input.size(); ++i) {
    EXPECT_EQ(answers[i].at("id"), input[i].at("id"));
    right += answers[i].at("answer") == input[i].at("label") ? 1 : 0;
    prompt_tokens += answers[i].at("prompt_tokens").get<int64_t>();
    cached_tokens += answers[i].at("cached_tokens").get<int64_t>();
    double total = 0;
    for (const auto& p : answers[i].at("probabilities")) total += p.get<double>();
    EXPECT_NEAR(total, 1.0, 1e-9);
  }
  const json figures = json::parse(read_file(summary));
  EXPECT_EQ(figures.at("items"), input.size());
  EXPECT_EQ(figures.at("errors"), 0);
  EXPECT_EQ(figures.at("prompt_tokens"), prompt_tokens);
  EXPECT_EQ(figures.at("cached_tokens"), cached_tokens);
  EXPECT_EQ(figures.at("computed_tokens"), prompt_tokens - cached_tokens);
  EXPECT_DOUBLE_EQ(figures.at("accuracy"), static_cast<double>(right) / static_cast<double>(input.size()));
  for (const char* name : {"macro_f1", "wall_seconds", "compute_seconds", "tokens_per_s", "load_seconds",
                           "peak_memory_bytes", "weight_bytes", "weight_load_bytes_per_s"})
    EXPECT_GT(figures.at(name).get<double>(), 0) << name;
  // The plan goes to stderr before the model is loaded, and into the summary.
  for (const char* consumer : {"replicated weights", "activations", "experts", "kept keys and values"}) {
    EXPECT_THAT(finished.err, HasSubstr(consumer));
    EXPECT_GT(figures.at("memory_plan_bytes").at("each_rank").at(consumer).get<int64_t>(), 0) << consumer;
  }
  for (const char* consumer : {"tokenizer", "pending requests"}) {
    EXPECT_THAT(finished.err, HasSubstr(consumer));
    EXPECT_GT(figures.at("memory_plan_bytes").at("host").at(consumer).get<int64_t>(), 0) << consumer;
  }
}

// The baselines answer as the default does, and say what they moved.
TEST(CommandLine, SynchronousStrategiesGiveTheSameAnswers) {
  const TemporaryFolder folder;
  const std::string rows = kRoot + "/examples/rows/intent.jsonl";
  const auto expected = lines_of(run(run_task(intent_task(), rows)).out);
  for (const std::string strategy : {"dp+ep", "dp+tp", "tp+ep", "tp+tp", "pp+pp"}) {
    SCOPED_TRACE(strategy);
    const std::string summary = folder.path() / "summary.json";
    const Finished finished =
        run(run_task(intent_task(), rows) + fmt::format("--ranks 2 --strategy {} --summary {}", strategy, summary));
    ASSERT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(strategy + " on 2 ranks"));
    const auto answers = lines_of(finished.out);
    ASSERT_EQ(answers.size(), expected.size());
    size_t same = 0;
    for (size_t i = 0; i < answers.size(); ++i) same += answers[i].at("answer") == expected[i].at("answer") ? 1 : 0;
    EXPECT_GE(same + 1, answers.size()) << "bf16 may turn an answer that was nearly a tie";
    const json group = json::parse(read_file(summary)).at("group");
    EXPECT_EQ(group.at("strategy"), strategy);
    EXPECT_GT(group.at("received_bytes_per_device_and_layer").get<double>(), 0);
    EXPECT_GT(group.at("collective_seconds_per_device").get<double>(), 0);
  }
}

// What is said of options that do not fit.
std::string refusal(const std::string& options) {
  return run(run_task(intent_task(), kRoot + "/examples/rows/intent.jsonl") + options).err;
}

TEST(CommandLine, StrategiesThatDoNotFitAreRefusedByName) {
  EXPECT_THAT(refusal("--strategy tp+tp --ranks 4"), HasSubstr("4 does not divide the 6 query heads"));
  EXPECT_THAT(refusal("--strategy sp+ep --ranks 2"), HasSubstr("sp+ep"));
  EXPECT_THAT(refusal("--strategy pp+pp --ranks 0"), HasSubstr(" --ranks is 0"));
  // A field that is a word of the language is an option only where a problem says what it is.
  EXPECT_THAT(refusal("--strategy dp+ep --ranks 2 --experts gathered"), HasSubstr(" strategy dp+ep decides itself"));
  EXPECT_THAT(refusal("--strategy dp+ep --ranks 2 --calibration f.json"), HasSubstr("; the strategy is dp+ep"));
  EXPECT_THAT(refusal("--strategy dp+ep --ranks 2 --trace f.json"), HasSubstr(" --trace is of strategy asyncep alone"));
}

TEST(CommandLine, NothingInAMessageActsOnTheTerminal) {
  const std::string red = "$(printf '\\033[31mred')";
  EXPECT_THAT(run("plan --model " + red).err, HasSubstr("'?[31mred' is neither"));
  EXPECT_THAT(run("plan --model Qwen3-30B-A3B --experts " + red).err, HasSubstr("?[31mred"));
  EXPECT_THAT(run("run --model m --input " + red + " --task t").err, Not(HasSubstr("\033")));
  // What is several lines stays so.
  EXPECT_THAT(run("plan --model Qwen3-30B-A3B --gpus 0 --slots 1").err, HasSubstr("\n--slots is 1;"));
}

TEST(CommandLine, AUsersTextIsNoField) {
  EXPECT_THAT(refusal("--policy target.gamma"), HasSubstr(" --policy is 'target.gamma'; there are "));
  EXPECT_THAT(refusal("--policy 'it; ranks is 5'"), HasSubstr(" --policy is 'it; ranks is 5'; there are "));
  EXPECT_THAT(refusal("--device step_tokens"), HasSubstr(" --device is 'step_tokens'; "));
  // What is not quoted still is one, behind a quote and an apostrophe too.
  EXPECT_THAT(refusal("--policy none --ranks 0"), HasSubstr(" --ranks is 0; "));
  EXPECT_THAT(refusal("--random-seed 2"), HasSubstr("--layers, --random-seed and --expert-skew are of random models"));
  const std::string random = "run --model random:" + kRoot + "/tests/data/models/aligned_bf16 --synthetic 1x1 ";
  EXPECT_THAT(run(random + "--expert-skew 0").err, HasSubstr(" --expert-skew is 0; it must lie in [1, 1e6]"));
}

TEST(CommandLine, ReadsStandardInput) {
  const Finished finished = run(run_task(intent_task(), "-") + R"(<<'END'
{"id": "a", "text": "play some jazz"}
{"id": "b", "text": "will it rain tomorrow"}
END
)");
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const auto answers = lines_of(finished.out);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].at("answer"), "PlayMusic");
  EXPECT_EQ(answers[1].at("answer"), "GetWeather");
}

TEST(CommandLine, ABadRowGetsAnErrorAndTheRestGoesOn) {
  const TemporaryFolder folder;
  std::string longer_than_the_model;
  for (int i = 0; i < 3000; ++i) longer_than_the_model += "word ";
  const std::string rows = folder.write("rows.jsonl",
                                        "{\"id\": 1, \"text\": \"play some jazz\"}\n"
                                        "{broken\n"
                                        "{\"id\": 3}\n"
                                        "{\"id\": 4, \"text\": \"a\xff\"}\n"
                                        "{\"id\": 5, \"text\": \"" +
                                            longer_than_the_model +
                                            "\"}\n"
                                            "{\"id\": 6, \"text\": \"play\", \"label\": \"Nonsense\"}\n"
                                            "{\"id\": 7, \"text\": \"will it rain tomorrow\"}\n");
  const Finished finished = run(run_task(intent_task(), rows));
  ASSERT_EQ(finished.exit_code, 3) << finished.err;
  EXPECT_THAT(finished.err, EndsWith("7 rows: 2 answered, 5 failed (invalid_argument 4, not_found 1)\n"));
  const auto answers = lines_of(finished.out);
  ASSERT_EQ(answers.size(), 7U);
  EXPECT_EQ(answers[0].at("answer"), "PlayMusic");
  EXPECT_EQ(answers[6].at("answer"), "GetWeather");
  for (const size_t bad : {1, 2, 3, 4, 5}) {
    ASSERT_TRUE(answers[bad].contains("error")) << bad;
    EXPECT_FALSE(answers[bad].at("error").at("message").get<std::string>().empty());
  }
  EXPECT_THAT(answers[2].at("error").at("message").get<std::string>(), HasSubstr("text"));
  EXPECT_THAT(answers[4].at("error").at("message").get<std::string>(), HasSubstr("2048"));
  EXPECT_THAT(answers[5].at("error").at("message").get<std::string>(), HasSubstr("Nonsense"));
}

TEST(CommandLine, AFullDiskEndsTheRunByName) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "/dev/full is missing";
  const Finished finished = run(run_task(intent_task(), kRoot + "/examples/rows/intent.jsonl") + "--output /dev/full");
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.err, HasSubstr("/dev/full"));
}

TEST(CommandLine, NeverEmptiesItsInput) {
  const TemporaryFolder folder;
  const std::string rows = folder.write("rows.jsonl", "{\"id\": 1, \"text\": \"play\"}\n");
  const Finished finished = run(run_task(intent_task(), rows) + "--output " + rows);
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_FALSE(read_file(rows).empty());
}

TEST(CommandLine, NeverOverwritesWhatItReadsOrWrites) {
  const TemporaryFolder folder;
  const std::string rows = folder.write("rows.jsonl", "{\"id\": 1, \"text\": \"play\"}\n");
  const std::string task = folder.write("task.yaml", read_file(intent_task()));
  const std::string out = folder.path() / "out";
  for (const std::string& outputs :
       {"--output " + task, "--summary " + task, "--summary " + rows, fmt::format("--output {0} --summary {0}", out),
        "--output " + kModel + "/config.json"}) {
    EXPECT_EQ(run(run_task(task, rows) + outputs).exit_code, 1) << outputs;
  }
  EXPECT_EQ(read_file(task), read_file(intent_task()));
  EXPECT_FALSE(read_file(rows).empty());
  EXPECT_THAT(read_file(kModel + "/config.json"), HasSubstr("qwen3_moe"));
}

TEST(CommandLine, ANullIsItsRowsErrorAndTheRestGoesOn) {
  const Finished finished = run(run_task(intent_task(), "-") + R"(<<'END'
{"id": "a", "text": null}
{"id": "b", "text": ""}
END
)");
  EXPECT_EQ(finished.exit_code, 3) << finished.err;
  const auto answers = lines_of(finished.out);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].at("id"), "a");
  EXPECT_THAT(answers[0].at("error").at("message").get<std::string>(),
              HasSubstr("line 1: the input template uses 'text', null in this row"));
  EXPECT_TRUE(answers[1].contains("answer"));
}

// What README.md says of predicates and of the ids of errors.
TEST(CommandLine, APredicateAnswersTrueOrFalseAndErrorsHaveTheBestIdThereIs) {
  const TemporaryFolder folder;
  const std::string task = folder.write("task.yaml",
                                        "form: predicate\ninstructions: Is it music?\ninput: '{{text}}'\n"
                                        "id_column: id\nlabel_column: label\n");
  const std::string summary = folder.path() / "summary.json";
  const Finished finished = run(run_task(task, "-") + "--summary " + summary + R"( <<'END'
{"id": "a", "text": "play some jazz", "label": "YES"}
{"id": "b", "text": "play some jazz", "label": 0}
{"id": "c", "text": "play some jazz", "label": true}

{"id": "d", "text": "play some jazz", "label": "maybe"}
{"id": "e",
{"text": "play some jazz"}
END
)");
  EXPECT_EQ(finished.exit_code, 3) << finished.err;
  const auto answers = lines_of(finished.out);
  ASSERT_EQ(answers.size(), 6U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(answers[i].at("answer").is_boolean());
    for (const char* numbers : {"probabilities", "logprobs", "vocab_logprobs"})
      for (const char* key : {"true", "false"}) EXPECT_TRUE(answers[i].at(numbers).at(key).is_number()) << numbers;
  }
  const json figures = json::parse(read_file(summary));
  EXPECT_EQ(figures.at("labelled"), 3);
  EXPECT_NEAR(figures.at("accuracy").get<double>(), answers[0].at("answer") ? 2.0 / 3 : 1.0 / 3, 1e-12);
  for (size_t i = 3; i < 6; ++i) EXPECT_TRUE(answers[i].contains("error")) << i;
  EXPECT_EQ(answers[3].at("id"), "d");
  EXPECT_EQ(answers[4].at("id"), 4) << "it could not be read";
  EXPECT_EQ(answers[5].at("id"), 5) << "it has none";
}

TEST(CommandLine, AnUnwritableSummaryIsHeardOfBeforeTheWork) {
  const Finished finished =
      run(run_task(intent_task(), kRoot + "/examples/rows/intent.jsonl") + "--summary /nonexistent/summary.json");
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.err, HasSubstr("/nonexistent/summary.json"));
  EXPECT_EQ(finished.out, "");
}

TEST(CommandLine, AStandardErrorThatCannotBeWrittenToChangesNothing) {
  const std::string rows = kRoot + "/examples/rows/intent.jsonl";
  const Finished finished = run(run_task(intent_task(), rows) + "2>/dev/full");
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_EQ(lines_of(finished.out).size(), lines_of(read_file(rows)).size());
}

TEST(CommandLine, NamesWhatIsMissingOrWrong) {
  const TemporaryFolder folder;
  const std::string task = folder.write("task.yaml", "form: choice\nextra: 1\n");
  const std::string rows = folder.write("rows.jsonl", "");
  EXPECT_THAT(run(run_task(task, rows)).err, HasSubstr("extra"));
  EXPECT_THAT(run(run_task("/nonexistent.yaml", rows)).err, HasSubstr("/nonexistent.yaml"));
  EXPECT_THAT(run(run_task(intent_task(), "/nonexistent.jsonl")).err, HasSubstr("/nonexistent.jsonl"));
  EXPECT_THAT(run("run --model /nonexistent --task " + intent_task() + " --input " + rows).err,
              HasSubstr("/nonexistent"));
  // A folder that is named like a field is not an option.
  EXPECT_THAT(run("run --model /nonexistent/step_tokens --task " + intent_task() + " --input " + rows).err,
              HasSubstr("/nonexistent/step_tokens"));
  EXPECT_THAT(run(run_task(intent_task(), rows) + "--kv-cache 5X").err, HasSubstr("5X"));
  const std::string no_memory = run(run_task(intent_task(), rows) + "--memory-limit 1MiB").err;
  for (const char* said :
       {"1.00 MiB", "(--max-context, now 2048)", "a smaller --kv-cache less", "fewer --max-pending less"})
    EXPECT_THAT(no_memory, HasSubstr(said));
  EXPECT_THAT(run(run_task(intent_task(), rows) + "--device cuda").err, HasSubstr("cuda"));
  EXPECT_THAT(run(run_task(intent_task(), rows) + "--step-tokens 0").err, HasSubstr(" --step-tokens is 0"));
  EXPECT_EQ(run("run").exit_code, 2);
  EXPECT_EQ(run("").exit_code, 2);
  EXPECT_EQ(run("--help").exit_code, 0);
}

TEST(CommandLine, AnswersAreTheSameWhereverExpertsLive) {
  const TemporaryFolder folder;
  const std::string rows = kRoot + "/examples/rows/intent.jsonl";
  const std::string task = run_task(intent_task(), rows) + "--threads 1 ";
  // Cached tokens of an answer depend on the rank that it found; logits and probabilities do not.
  const auto answers = [](const Finished& finished) {
    std::vector<json> lines = lines_of(finished.out);
    for (json& line : lines) line.erase("cached_tokens");
    return lines;
  };
  const Finished resident = run(task + "--experts resident");
  ASSERT_EQ(resident.exit_code, 0) << resident.err;
  const std::string summary = folder.path() / "summary.json";
  const std::string trace = folder.path() / "trace.json";
  for (const std::string& options :
       {std::string("--ranks 3 --experts gathered --slots 3 --link-bandwidth 2GB/s --slice 16KiB"),
        std::string("--experts host --host-bandwidth 2GB/s --host-latency-us 50"),
        std::string("--ranks 2 --experts gathered --below-threshold send-activations"),
        std::string("--experts host --below-threshold fetch-routed"),
        std::string("--ranks 2 --experts hybrid --expert-memory 3MiB --window 3"), std::string("--ranks 2")}) {
    const Finished finished = run(fmt::format("{}{} --summary {} --trace {}", task, options, summary, trace));
    ASSERT_EQ(finished.exit_code, 0) << options << ": " << finished.err;
    EXPECT_EQ(answers(finished), answers(resident)) << options;
    const json report = json::parse(read_file(summary));
    EXPECT_GE(report.at("exposed_fraction").get<double>(), 0.0);
    EXPECT_LE(report.at("exposed_fraction").get<double>(), 1.0);
    int64_t steps = 0;
    int64_t steps_by_mode = 0;
    for (const json& rank : report.at("ranks")) {
      steps += rank.at("steps").get<int64_t>();
      for (const auto& [mode, count] : rank.at("steps_by_mode").items()) steps_by_mode += count.get<int64_t>();
    }
    EXPECT_EQ(steps, report.at("steps").get<int64_t>());
    EXPECT_EQ(steps_by_mode, steps);
    EXPECT_FALSE(json::parse(read_file(trace)).at("traceEvents").empty());
  }
}

TEST(CommandLine, NamesWhatIsWrongAboutRanksAndLinks) {
  const std::string task = run_task(intent_task(), kRoot + "/examples/rows/intent.jsonl");
  EXPECT_THAT(run(task + "--ranks 0").err, HasSubstr(" --ranks is 0; it must lie in"));
  EXPECT_THAT(run(task + "--ranks 0 --threads 5000").err, HasSubstr("; --threads is 5000; it must lie in"));
  EXPECT_THAT(run(task + "--slots 1").err, HasSubstr("--slots is 1"));
  EXPECT_THAT(run(task + "--link-bandwidth 5GB").err, HasSubstr("--link-bandwidth is '5GB'"));
  EXPECT_THAT(run(task + "--host-bandwidth 0GB/s").err, HasSubstr("--host-bandwidth is '0GB/s'"));
  EXPECT_THAT(run(task + "--pace fast").err, HasSubstr("--pace is 'fast'"));
  EXPECT_THAT(run(task + "--experts hybrid --expert-memory 1KiB").err, HasSubstr("the first layer of experts"));
  EXPECT_EQ(run(task + "--experts everywhere").exit_code, 2);
  EXPECT_EQ(run(task + "--below-threshold never").exit_code, 2);
  EXPECT_THAT(run(task + "--experts host --below-threshold send-activations").err,
              HasSubstr("--below-threshold is send-activations"));
}

TEST(CommandLine, SaysWhyExpertsLiveElsewhereThanAskedFor) {
  const std::string task = run_task(intent_task(), kRoot + "/examples/rows/intent.jsonl");
  const auto said = [&](const std::string& options) { return run(task + options).err; };
  EXPECT_THAT(said("--experts gathered"), HasSubstr("--experts gathered came to resident: one rank keeps all experts"));
  EXPECT_THAT(said("--experts hybrid"), HasSubstr("--experts hybrid came to resident: the rank's memory holds all"));
  EXPECT_THAT(said("--experts hybrid --ranks 2"),
              HasSubstr("--experts hybrid came to gathered: the ranks' memory holds all"));
  EXPECT_THAT(said("--experts hybrid --expert-memory 3MiB"),
              HasSubstr("--experts hybrid came to host: one rank shares the streaming with nobody"));
  for (const char* as_asked : {"--experts host", "--experts gathered --ranks 2", "--ranks 2", "--experts resident",
                               "--experts hybrid --expert-memory 3MiB --ranks 2"})
    EXPECT_THAT(said(as_asked), Not(HasSubstr("came to"))) << as_asked;
}

// Which rank runs what, and when a step is full, changes no answer; the summary has it by rank.
TEST(CommandLine, RoutesByPolicyAndTargetAndSaysHowWellRanksWereFilled) {
  const TemporaryFolder folder;
  const std::string summary_path = folder.path() / "summary.json";
  const std::string calibration = folder.path() / "calibration.json";
  const std::string task = run_task(intent_task(), kRoot + "/examples/rows/intent.jsonl");
  const auto answers = [](const Finished& finished) {
    std::vector<json> all = lines_of(finished.out);
    for (json& answer : all) answer.erase("cached_tokens");
    return all;
  };
  const Finished one = run(task + "--save-calibration " + calibration);
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.err, HasSubstr("steps are filled to"));
  const Finished many =
      run(task + "--ranks 2 --experts gathered --policy round-robin --step-target 1000 --summary " + summary_path);
  ASSERT_EQ(many.exit_code, 0) << many.err;
  EXPECT_EQ(answers(many), answers(one));
  EXPECT_THAT(many.err, ::testing::AllOf(HasSubstr("t_EP"), HasSubstr("load/target"), HasSubstr("planner wait")));
  const json summary = json::parse(read_file(summary_path));
  EXPECT_EQ(summary.at("load_unit"), "tokens");
  EXPECT_NEAR(summary.at("saturation").at("target").at("tokens").get<double>(), 1000, 1);
  EXPECT_GT(summary.at("saturation").at("threshold").at("flops").get<double>(), 0);
  int64_t cached = 0;
  for (const json& rank : summary.at("ranks")) {
    EXPECT_GT(rank.at("steps"), 0);
    EXPECT_GT(rank.at("load_of_target"), 0);
    EXPECT_NEAR(rank.at("load").get<double>(), rank.at("load_of_target").get<double>() * 1000, 1e-6);
    cached += rank.at("cached_tokens").get<int64_t>();
  }
  EXPECT_EQ(cached, summary.at("cached_tokens"));

  const Finished known = run(task + "--calibration " + calibration + " --step-target 0.5ms --summary " + summary_path);
  ASSERT_EQ(known.exit_code, 0) << known.err;
  EXPECT_EQ(answers(known), answers(one));
  const json seen = json::parse(read_file(summary_path));
  EXPECT_EQ(seen.at("load_unit"), "layer seconds");
  EXPECT_NEAR(seen.at("saturation").at("target").at("milliseconds").get<double>(), 0.5, 1e-9);

  // No token of this model takes so little.
  const Finished tiny = run(task + "--calibration " + calibration + " --step-target 0.01us --summary " + summary_path);
  ASSERT_EQ(tiny.exit_code, 0) << tiny.err;
  EXPECT_THAT(tiny.err, HasSubstr("that is less than a token, so every step holds one request"));
  EXPECT_THAT(tiny.err, Not(AnyOf(HasSubstr(" 0 tokens"), HasSubstr(" 0.00 tokens"))));
}

// Kept for months, it must say what it is of.
TEST(CommandLine, ASummarySaysOfWhatItIs) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "summary.json";
  const auto summary = [&](const std::string& arguments) {
    const Finished finished = run("run " + arguments + " --synthetic 2x16 --output /dev/null --summary " + path);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return nlohmann::ordered_json::parse(read_file(path));
  };
  const auto files = summary("--dtype f32 --model " + kModel + "/");
  EXPECT_EQ(files.begin().key(), "model");
  EXPECT_EQ(files.at("model"), "demo-moe");
  EXPECT_EQ((++files.begin()).key(), "layers");
  EXPECT_EQ(files.at("layers"), 6);
  EXPECT_EQ(files.at("dtype"), "f32");
  EXPECT_EQ(files.at("strategy"), "asyncep");
  EXPECT_EQ(files.at("version").get<std::string>() + "\n", run("--version").out);
  const auto random = summary("--dtype bf16 --strategy dp+ep --ranks 2 --layers 2 --model random:" + kModel);
  EXPECT_EQ(random.at("model"), "random:demo-moe");
  EXPECT_EQ(random.at("layers"), 2);
  EXPECT_EQ(random.at("dtype"), "bf16");
  EXPECT_EQ(random.at("strategy"), "dp+ep");
}

TEST(CommandLine, NamesWhatIsWrongAboutSchedulingOptions) {
  const TemporaryFolder folder;
  const std::string calibration = folder.path() / "calibration.json";
  std::ofstream(calibration)
      << R"({"format": "zeroprefill-calibration-2", "operations": "abacus", "model": "m", "dtype": "bf16", "attention_flops_per_second": 1e9,
             "dense_flops_per_second": 1e9, "expert_flops_per_second": 1e9, "peer_bytes_per_second": 0,
             "host_bytes_per_second": 0, "step_seconds": 0})";
  const auto error = [](const std::string& arguments) {
    const Finished finished = run(run_task(intent_task(), kRoot + "/examples/rows/intent.jsonl") + arguments);
    EXPECT_NE(finished.exit_code, 0);
    return finished.err;
  };
  EXPECT_THAT(error("--policy best"), HasSubstr(" --policy is 'best'; there are prefix-saturation"));
  // What somebody wrote is not an option because a field has that name.
  EXPECT_THAT(error("--policy ranks"), HasSubstr(" --policy is 'ranks'; there are"));
  // What an earlier run has measured outlives a run that measures nothing.
  EXPECT_THAT(error("--strategy dp+ep --ranks 2 --save-calibration " + std::string(folder.path() / "kept.json")),
              HasSubstr("--save-calibration needs strategy asyncep"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "kept.json"));
  EXPECT_THAT(error("--summary new_file.json --save-calibration ./new_file.json"), HasSubstr("are the same file"));
  EXPECT_THAT(error("--summary /no/such/folder/s.json"), HasSubstr("/no/such/folder/s.json cannot be written"));
  EXPECT_THAT(error("--gamma 0.5"), HasSubstr("--gamma is 0.5; it must lie in [1, 2]"));
  EXPECT_THAT(error("--step-target 3days"), HasSubstr("--step-target is '3days'"));
  EXPECT_THAT(error("--step-target 0"), HasSubstr(" --step-target is 0"));
  EXPECT_THAT(error("--step-tokens 4096 --max-step-tokens 5"),
              HasSubstr("--max-step-tokens is 5; it must be 0 or lie in [4096,"));
  EXPECT_THAT(error("--calibration /no/such/file"), HasSubstr("/no/such/file"));
  EXPECT_THAT(error("--calibration " + calibration), HasSubstr("measured with operations 'abacus'"));
  EXPECT_THAT(error("--calibration " + calibration + " --ranks 2 --experts gathered"),
              HasSubstr("peer_bytes_per_second is 0, but experts come from other ranks"));
  EXPECT_THAT(error("--calibration " + calibration + " --strategy dp+ep --ranks 2"), HasSubstr("asyncep alone"));
  EXPECT_THAT(error("--calibration " + calibration + " --save-calibration " + calibration), HasSubstr(calibration));
}

TEST(CommandLine, AnEmptyInputGivesAnEmptyOutput) {
  const TemporaryFolder folder;
  const std::string rows = folder.write("rows.csv", "id,text\n");
  const Finished finished = run(run_task(intent_task(), rows));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(finished.out, "");
}

TEST(CommandLine, TokenizesThereAndBack) {
  const TemporaryFolder folder;
  const std::string texts = folder.write("texts", "play some jazz\n\n  caf\xc3\xa9 \xe2\x98\x95\n");
  const std::string tokenizer = "tokenize --tokenizer " + kModel;
  const Finished ids = run(tokenizer + " <" + texts);
  ASSERT_EQ(ids.exit_code, 0) << ids.err;
  EXPECT_EQ(lines_of(ids.out)[1], json::array());
  const std::string id_file = folder.write("ids", ids.out);
  EXPECT_EQ(run(tokenizer + " --decode <" + id_file).out, read_file(texts));
}

TEST(CommandLine, TokenizesJsonStringsWithLineEnds) {
  const TemporaryFolder folder;
  const std::string tokenizer = "tokenize --json --tokenizer " + kModel;
  const json text = "two\nlines\t\"quoted\" \u2615";
  const Finished ids = run(tokenizer + " <" + std::string(folder.write("texts", text.dump() + "\n")));
  ASSERT_EQ(ids.exit_code, 0) << ids.err;
  ASSERT_EQ(lines_of(ids.out).size(), 1U);
  EXPECT_EQ(lines_of(run(tokenizer + " --decode <" + std::string(folder.write("ids", ids.out))).out)[0], text);
}

TEST(CommandLine, TokenizesSpecialTokensAsTextWhenToldSo) {
  const TemporaryFolder folder;
  const std::string special = json::parse(read_file(kModel + "/tokenizer.json")).at("added_tokens")[0].at("content");
  const std::string texts = folder.write("texts", special + "\n");
  const std::string tokenizer = "tokenize --tokenizer " + kModel;
  EXPECT_EQ(lines_of(run(tokenizer + " <" + texts).out)[0].size(), 1U);
  EXPECT_GT(lines_of(run(tokenizer + " --special-tokens-as-text <" + texts).out)[0].size(), 1U);
}

TEST(CommandLine, TokenizeAnswersABadLineWithAnErrorAndGoesOn) {
  const TemporaryFolder folder;
  const std::string tokenizer = "tokenize --tokenizer " + kModel;
  const Finished ids = run(tokenizer + " <" + std::string(folder.write("bad", "play\n\xff\nplay\n")));
  EXPECT_EQ(ids.exit_code, 1);
  const auto lines = lines_of(ids.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], lines[2]);
  EXPECT_THAT(lines[1].at("error").get<std::string>(), HasSubstr("line 2"));
  const Finished texts = run(tokenizer + " --decode <" + std::string(folder.write("ids", "[99999]\n[1.5]\n{\n")));
  EXPECT_EQ(texts.exit_code, 1);
  EXPECT_THAT(texts.out, HasSubstr("4096"));
  EXPECT_THAT(texts.err, HasSubstr("3 of 3"));
}

TEST(CommandLine, InspectReportsATruncatedCheckpoint) {
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"})
    folder.write(name, read_file(kModel + "/" + name));
  EXPECT_EQ(run("inspect " + folder.path().string()).exit_code, 0);
  std::filesystem::resize_file(folder.path() / "model.safetensors", 1'000'000);
  const Finished truncated = run("inspect --json " + folder.path().string());
  EXPECT_EQ(truncated.exit_code, 1);
  EXPECT_THAT(json::parse(truncated.out).at("problems").dump(), HasSubstr("truncated"));
}

}  // namespace
}  // namespace zp
