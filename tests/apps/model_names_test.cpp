// What --model names, from the outside: a folder or a known model, whatever else has that name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/apps/program.h"
#include "tests/support/temporary_folder.h"

namespace zp {
namespace {

using nlohmann::json;
using test::Finished;
using test::read_file;
using test::run_program;
using test::run_shell;
using test::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDemo = ZP_SOURCE_DIR "/models/demo-moe";
constexpr int kDemoLayers = 6;    // num_hidden_layers
constexpr int kKnownLayers = 48;  // of Qwen3-30B-A3B

// A folder with the shipped model, of 6 layers, as m/Qwen3-30b-a3b, and with Qwen3-235B-A22B, which is empty.
class ModelNames : public testing::Test {
 protected:
  ModelNames() {
    std::filesystem::create_directory(folder_.path() / "m");
    std::filesystem::create_directory_symlink(kDemo, folder_.path() / "m/Qwen3-30b-a3b");
    std::filesystem::create_directory(folder_.path() / "Qwen3-235B-A22B");
    folder_.write("trace.jsonl", R"({"timestamp": 0, "input_length": 700, "hash_ids": [0, 1]})"
                                 "\n");
  }
  // With the folder `from` of it as the current one.
  [[nodiscard]] Finished run_in(const std::string& from, const std::string& arguments) const {
    return run_shell("cd " + std::string(folder_.path() / from) + " && " ZP_PROGRAM " " + arguments);
  }
  [[nodiscard]] json plan(const std::string& from, const std::string& model) const {
    const Finished finished = run_in(from, "plan --json --model '" + model + "'");
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.exit_code == 0 ? json::parse(finished.out) : json();
  }
  // Of a model in bf16.
  void write_calibration(const std::string& model) const {
    folder_.write("calibration.json",
                  R"({"format": "zeroprefill-calibration-2", "operations": "x", "model": ")" + model +
                      R"(", "dtype": "bf16", "attention_flops_per_second": 1e13, "dense_flops_per_second": 1e13, )"
                      R"("expert_flops_per_second": 1e13, "peer_bytes_per_second": 1e9, "host_bytes_per_second": 1e9, )"
                      R"("step_seconds": 0})");
  }
  TemporaryFolder folder_;
};

TEST_F(ModelNames, AFolderWithAModelGoesBeforeAKnownName) {
  const std::string whole = folder_.path() / "m/Qwen3-30b-a3b";
  for (const auto& [from, model] : std::vector<std::pair<std::string, std::string>>{{"", "m/Qwen3-30b-a3b"},
                                                                                    {"", "m/Qwen3-30b-a3b/"},
                                                                                    {"", "./m/Qwen3-30b-a3b"},
                                                                                    {"m", "Qwen3-30b-a3b"},
                                                                                    {"m", whole},
                                                                                    {"m", whole + "/"}}) {
    SCOPED_TRACE(model);
    const json planned = plan(from, model);
    EXPECT_EQ(planned.at("source"), "config.json");
    EXPECT_EQ(planned.at("model"), model);

    const Finished simulated =
        run_in(from, "simulate --json - --trace " + std::string(folder_.path() / "trace.jsonl") + " --model " + model);
    ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
    EXPECT_EQ(json::parse(simulated.out).at("model"), model);

    const std::string path = folder_.path() / "summary.json";
    const Finished ran = run_in(
        from, fmt::format("run --synthetic 1x16 --output /dev/null --model random:{} --summary {}", model, path));
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    const json summary = json::parse(read_file(path));
    EXPECT_EQ(summary.at("model"), "random:Qwen3-30b-a3b");
    EXPECT_EQ(summary.at("layers"), kDemoLayers);
  }
}

TEST_F(ModelNames, AKnownNameIsBareOrAHubs) {
  for (const char* model : {"qwen3-30B-a3b", "Qwen/Qwen3-30B-A3B"})
    EXPECT_EQ(plan("", model).at("model"), "Qwen3-30B-A3B");
  EXPECT_EQ(plan("", "Qwen3-235B-A22B").at("source"), "https://huggingface.co/Qwen/Qwen3-235B-A22B")
      << "the folder of that name holds no model";
  // Refused for what a cut cannot have, so with the shape at hand.
  EXPECT_THAT(run_in("", "run --synthetic 1x16 --layers 49 --model random:Qwen/Qwen3-30B-A3B").err,
              HasSubstr(fmt::format("has {} layers", kKnownLayers)));
  for (const std::string model : {"./Qwen3-30B-A3B", "../Qwen3-30B-A3B", "/Qwen3-30B-A3B", "~/Qwen3-30B-A3B",
                                  "Qwen3-30B-A3B/", "Qwen/Qwen3-30B-A3B/", "m/n/Qwen3-30B-A3B"}) {
    SCOPED_TRACE(model);
    const Finished planned = run_in("", "plan --model '" + model + "'");
    EXPECT_EQ(planned.exit_code, 1);
    EXPECT_THAT(planned.err, HasSubstr("'" + model + "' is neither a folder nor a model known by name"));
    const Finished ran = run_in("", "run --synthetic 1x16 --output /dev/null --model 'random:" + model + "'");
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_THAT(ran.err, HasSubstr("'" + model + "' is neither a known model"));
  }
  EXPECT_THAT(run_in("", "plan --model " + std::string(5000, 'x')).err, HasSubstr("is neither a folder nor a model"));
}

TEST_F(ModelNames, ACalibrationsNameIsAFoldersOrAKnownOne) {
  const std::string calibration = folder_.path() / "calibration.json";
  const auto warned = [&](const std::string& measured, const std::string& model) {
    write_calibration(measured);
    const Finished finished = run_in("", "plan --calibration " + calibration + " --model " + model);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.err;
  };
  EXPECT_THAT(warned("Qwen3-30B-A3B", "qwen/qwen3-30b-a3b"), Not(HasSubstr("warning")));
  EXPECT_THAT(warned("Qwen3-30B-A3B", "m/Qwen3-30b-a3b"), HasSubstr("but this is Qwen3-30b-a3b in bf16"));
  EXPECT_THAT(warned("Qwen3-30b-a3b", "m/Qwen3-30b-a3b/"), Not(HasSubstr("warning")));
}

// Rates are per FLOP.
TEST_F(ModelNames, ACutModelTakesTheCalibrationOfTheWhole) {
  const std::string calibration = folder_.path() / "calibration.json";
  const std::string summary = folder_.path() / "summary.json";
  const auto run = [&](const std::string& options) {
    Finished finished = run_program("run --synthetic 1x16 --output /dev/null --model random:" + kDemo + " " + options);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.err;
  };
  (void)run("--layers 2 --save-calibration " + calibration);
  EXPECT_EQ(json::parse(read_file(calibration)).at("model"), "demo-moe");
  for (const auto& [options, layers] :
       std::vector<std::pair<std::string, int>>{{"", kDemoLayers}, {"--layers 6", kDemoLayers}, {"--layers 1", 1}}) {
    const std::string err = run(fmt::format("{} --calibration {} --summary {}", options, calibration, summary));
    EXPECT_THAT(err, HasSubstr("read from " + calibration + ", measured with demo-moe in "));
    EXPECT_THAT(err, Not(HasSubstr("warning")));
    EXPECT_EQ(json::parse(read_file(summary)).at("layers"), layers);
  }
}

TEST_F(ModelNames, AKnownModelNeedsNoCurrentFolder) {
  write_calibration("Qwen3-30B-A3B");
  const std::string calibration = folder_.path() / "calibration.json";
  const std::string gone = folder_.path() / "gone";
  const Finished finished =
      run_shell("mkdir " + gone + " && cd " + gone + " && rmdir " + gone +
                " && " ZP_PROGRAM " plan --json --model Qwen3-30B-A3B --calibration " + calibration);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(json::parse(finished.out).at("model"), "Qwen3-30B-A3B");
}

// Every rank holds the first layer of experts, so nothing is left to move.
TEST_F(ModelNames, PlanAndRunAgreeOnAModelWithOneLayer) {
  json config = json::parse(read_file(kDemo + "/config.json"));
  config["num_hidden_layers"] = 1;
  std::filesystem::create_directory(folder_.path() / "one");
  folder_.write("one/config.json", config.dump());
  for (const std::string experts : {"gathered", "hybrid", "host"}) {
    const std::string came_to = "\n--experts " + experts +
                                " came to resident: only one layer has experts, and every rank keeps the first such "
                                "layer\n";
    const Finished planned = run_in("", "plan --model one --gpus 2 --experts " + experts);
    EXPECT_EQ(planned.exit_code, 0) << planned.err;
    EXPECT_THAT(planned.out, HasSubstr("asyncep, experts resident: 0 of 1 layers are streamed" + came_to));
    EXPECT_THAT(planned.out, Not(HasSubstr("expert slots")));
    const Finished ran =
        run_in("", "run --synthetic 2x16 --output /dev/null --model random:one --ranks 2 --experts " + experts);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(came_to));
  }
}

}  // namespace
}  // namespace zp
