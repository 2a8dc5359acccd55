// `plan` and `simulate` of the built program: tables, JSON, pictures, and errors that say what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/apps/program.h"
#include "tests/support/temporary_folder.h"

namespace zp {
namespace {

using nlohmann::json;
using test::Finished;
using test::read_file;
using test::run_program;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PlanCommand, PrintsMemoryThresholdAndStrategies) {
  const Finished finished = run_program("plan --model Qwen3-235B-A22B --gpu h200 --gpus 8");
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out,
              AllOf(HasSubstr("kept keys and values"), HasSubstr("t_EP by peer link"), HasSubstr("bound by")));
  EXPECT_THAT(finished.out, AllOf(HasSubstr("asyncep"), HasSubstr("dp+ep"), HasSubstr("pp+pp"), HasSubstr("sp+tp")));
}

TEST(PlanCommand, JsonHasTheHandComputedFigures) {
  const Finished finished = run_program("plan --model Qwen3-235B-A22B --gpu h200 --gpus 8 --json");
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const json plan = json::parse(finished.out);
  const json& asyncep = plan.at("asyncep");
  // 7/8 of 4.83 GB at 391 GB/s.
  EXPECT_NEAR(asyncep.at("peer_bytes_per_layer").get<double>(), 4'831'838'208.0 * 7 / 8, 1);
  EXPECT_NEAR(asyncep.at("t_ep_seconds").at("peer").get<double>(), 10.81e-3, 0.01e-3);
  const double target = asyncep.at("target").at("seconds").get<double>();
  EXPECT_NEAR(target, 1.2 * 10.81e-3, 0.02e-3);
  EXPECT_EQ(plan.at("others").size(), 8U);
  uint64_t total = 0;
  for (const auto& bytes : plan.at("rank_memory_bytes")) total += bytes.get<uint64_t>();
  EXPECT_LE(total, plan.at("rank_memory_limit_bytes").get<uint64_t>());
}

TEST(PlanCommand, TakesACheckpointFolder) {
  const Finished finished = run_program("plan --model " ZP_SOURCE_DIR "/models/demo-moe --gpu a100 --gpus 2 --json");
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(json::parse(finished.out).at("asyncep").at("experts"), "resident");
}

TEST(PlanCommand, SaysWhatCannotRunAndFails) {
  const Finished finished = run_program("plan --model Qwen3-235B-A22B --gpu h200 --host-memory 64GiB --json");
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(json::parse(finished.out).at("asyncep").at("problem").get<std::string>(), HasSubstr("64.00 GiB"));
}

TEST(PlanCommand, NamesWhatIsWrong) {
  const auto error = [](const std::string& arguments) {
    const Finished finished = run_program("plan " + arguments);
    EXPECT_NE(finished.exit_code, 0);
    return finished.err;
  };
  EXPECT_THAT(error("--model Qwen9"), HasSubstr("'Qwen9' is neither a folder nor a model known by name"));
  EXPECT_THAT(error("--model Qwen3-30B-A3B --gpu v100"), HasSubstr("no hardware profile 'v100'"));
  EXPECT_THAT(error("--model Qwen3-30B-A3B --gpus 0"), HasSubstr("gpus is 0"));
  EXPECT_THAT(error("--model Qwen3-30B-A3B --gpu a100 --dtype fp8"), HasSubstr("a100 has no fp8"));
  EXPECT_THAT(error("--model Qwen3-30B-A3B --kv-memory lots"), HasSubstr("--kv-memory is 'lots'"));
  EXPECT_THAT(error("--model Qwen3-30B-A3B --hardware /no/such/file"), HasSubstr("/no/such/file"));
}

class SimulateCommand : public testing::Test {
 protected:
  // 40 requests of 700 tokens; four share each first block.
  std::string write_trace() {
    std::string path = folder_.path() / "trace.jsonl";
    std::ofstream file(path);
    for (int i = 0; i < 40; ++i)
      file << R"({"timestamp": )" << i << R"(, "input_length": 700, "hash_ids": [)" << i / 4 << ", " << 100 + i
           << "]}\n";
    return path;
  }
  TemporaryFolder folder_;
};

TEST_F(SimulateCommand, ReportsAndDraws) {
  const std::string json_path = folder_.path() / "report.json";
  const std::string plot_path = folder_.path() / "plot.svg";
  const Finished finished =
      run_program("simulate --trace " + write_trace() + " --model Qwen3-30B-A3B --ranks 2 --json " + json_path +
                  " --plot " + plot_path);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(HasSubstr("makespan"), HasSubstr("tokens/s"), HasSubstr("hit rate")));
  const json report = json::parse(read_file(json_path));
  EXPECT_EQ(report.at("requests"), 40);
  EXPECT_EQ(report.at("prompt_tokens"), 40 * 700);
  EXPECT_EQ(report.at("hit_tokens"), 30 * 512);
  EXPECT_EQ(report.at("hit_rate_bound"), 30.0 * 512 / (40 * 700));
  EXPECT_EQ(report.at("ranks").size(), 2U);
  EXPECT_THAT(read_file(plot_path), HasSubstr("</svg>"));
}

TEST_F(SimulateCommand, IsDeterministic) {
  const std::string command = "simulate --trace " + write_trace() +
                              " --model Qwen3-30B-A3B --ranks 3 --order shuffled --seed 4 --policy vllm --json -";
  const Finished first = run_program(command);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out, run_program(command).out);
}

TEST_F(SimulateCommand, WritesTheRequestsInsteadOfSimulating) {
  const std::string path = folder_.path() / "rows.jsonl";
  const Finished finished =
      run_program("simulate --mix paper --model Qwen3-30B-A3B --share 0.001 --write-requests " + path);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(HasSubstr("requests"), ::testing::Not(HasSubstr("makespan"))));
  std::istringstream rows(read_file(path));
  std::set<std::string> sources;
  int64_t count = 0;
  for (std::string line; std::getline(rows, line); ++count) {
    const std::string id = json::parse(line).at("id");
    sources.insert(id.substr(0, id.find('/')));
  }
  EXPECT_EQ(sources.size(), 6U);  // some of each benchmark
  EXPECT_GT(count, 50);
  EXPECT_LT(count, 500);
}

// A device of a tenth of the speed takes ten times as long.
TEST_F(SimulateCommand, TakesRatesAndLinksFromACalibration) {
  const auto makespan = [&](double rate) {
    const std::string calibration = folder_.path() / "calibration.json";
    std::ofstream(calibration)
        << R"({"format": "zeroprefill-calibration-1", "operations": "x", "attention_flops_per_second": )" << rate
        << R"(, "dense_flops_per_second": )" << rate << R"(, "expert_flops_per_second": )" << rate
        << R"(, "peer_bytes_per_second": 0, "host_bytes_per_second": 0, "step_seconds": 0})";
    const Finished finished = run_program("simulate --trace " + write_trace() +
                                          " --model Qwen3-30B-A3B --json - --calibration " + calibration);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return json::parse(finished.out).at("makespan_seconds").get<double>();
  };
  EXPECT_NEAR(makespan(1e13) / makespan(1e14), 10, 0.1);
}

TEST_F(SimulateCommand, NamesWhatIsWrong) {
  const std::string trace = write_trace();
  const auto error = [](const std::string& arguments) {
    const Finished finished = run_program("simulate --model Qwen3-30B-A3B " + arguments);
    EXPECT_NE(finished.exit_code, 0);
    return finished.err;
  };
  EXPECT_THAT(error(""), HasSubstr("give --trace FILE or --mix paper"));
  EXPECT_THAT(error("--trace " + trace + " --policy best"), HasSubstr("no policy 'best'; there are prefix-saturation"));
  EXPECT_THAT(error("--trace " + trace + " --order shuffled --arrivals trace"), HasSubstr("needs --arrivals at-once"));
  EXPECT_THAT(error("--trace /no/such/trace.jsonl"), HasSubstr("/no/such/trace.jsonl"));
  EXPECT_THAT(error("--trace " + trace + " --look-ahead 0"), HasSubstr("look_ahead is 0"));
  EXPECT_THAT(error("--trace " + trace + " --plot /no/such/folder/p.svg"), HasSubstr("cannot be written"));
  EXPECT_THAT(error("--trace " + trace + " --mix paper"), HasSubstr("--mix"));
  EXPECT_THAT(error("--trace " + trace + " --calibration " + trace), HasSubstr("trace.jsonl"));
  EXPECT_THAT(error("--trace " + trace + " --step-tokens -1"), HasSubstr("--step-tokens is -1"));
}

}  // namespace
}  // namespace zp
