// `plan` and `simulate` of the built program: tables, JSON, pictures, and errors that say what is wrong.
#include <fmt/format.h>
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
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

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
  const double threshold = asyncep.at("threshold").at("seconds").get<double>();
  EXPECT_NEAR(threshold, 1.2 * 10.81e-3, 0.02e-3);
  EXPECT_EQ(plan.at("others").size(), 8U);
  uint64_t total = 0;
  for (const auto& bytes : plan.at("rank_memory_bytes")) total += bytes.get<uint64_t>();
  EXPECT_LE(total, plan.at("rank_memory_limit_bytes").get<uint64_t>());
}

// A step that hides the transfer takes half as many.
TEST(PlanCommand, FillsStepsAsAGpusEngineDoesUnlessTold) {
  const auto target = [](const std::string& options) {
    const Finished finished = run_program("plan --model Qwen3-235B-A22B --gpu h200 --gpus 8 --json " + options);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return json::parse(finished.out).at("asyncep").at("target").at("tokens").get<double>();
  };
  EXPECT_NEAR(target(""), 32768, 1);
  EXPECT_NEAR(target("--step-tokens 20000"), 20000, 1);
  EXPECT_THAT(run_program("plan --help").out, HasSubstr("32768"));
  EXPECT_THAT(run_program("run --help").out, HasSubstr("32768"));
}

TEST(PlanCommand, SaysWhereTheTargetIsFrom) {
  const auto out = [](const std::string& options) {
    return run_program("plan --model Qwen3-235B-A22B --gpus 8 " + options).out;
  };
  EXPECT_THAT(out(""), ContainsRegex("target of a step .* 32768 tokens .*\\(as `run` on a GPU\\)"));
  EXPECT_THAT(out("--step-tokens 20000"), ContainsRegex("target of a step .* 20000 tokens .*\\(--step-tokens\\)"));
  EXPECT_THAT(out("--step-tokens 1000"), ContainsRegex("target of a step .*\\(T\\)"));
  // What is kept leaves too little for steps of 32,768 tokens, but not for half of them; links so fast that T is
  // nothing.
  const TemporaryFolder folder;
  const std::string hardware =
      folder.write("hardware.yaml",
                   "fast: {memory_gib: 139, memory_bandwidth_gb_per_s: 4800, peer_receive_gb_per_s: 100000, "
                   "host_gb_per_s: 100000, efficient_step_tokens: 8192, "
                   "bf16: {peak_tflops: 989, attention_tflops: 634, dense_tflops: 790, expert_tflops: 613}}\n");
  EXPECT_THAT(out("--gpu fast --kv-memory 105.5GiB --hardware " + hardware),
              ContainsRegex("target of a step .* 16384 tokens .*as `run` on a GPU: 32768 halved until they fit"));
}

TEST(PlanCommand, ExpertsLiveWhereTheyAreAskedTo) {
  const std::string plan = "plan --model Qwen3-30B-A3B --gpus 2 --experts ";
  EXPECT_THAT(run_program(plan + "auto").out, HasSubstr("asyncep, experts resident: 0 of 48 layers"));
  EXPECT_THAT(run_program(plan + "gathered").out, HasSubstr("asyncep, experts gathered: 47 of 48 layers"));
  EXPECT_THAT(run_program(plan + "host").out, HasSubstr("asyncep, experts host: 47 of 48 layers"));
  EXPECT_THAT(run_program(plan + "hybrid").out, HasSubstr("asyncep, experts gathered: 47 of 48 layers"));
  EXPECT_EQ(run_program(plan + "nowhere").exit_code, 2);
}

// As `run` does, but for the option that bounds the memory: it is none of plan's.
TEST(PlanCommand, SaysWhyExpertsLiveElsewhereThanAskedFor) {
  const auto out = [](const std::string& options) { return run_program("plan --model Qwen3-30B-A3B " + options).out; };
  EXPECT_THAT(out("--gpus 2 --experts hybrid"),
              HasSubstr("\n--experts hybrid came to gathered: the ranks' memory holds all experts, so none is left to "
                        "the host\n"));
  EXPECT_THAT(out("--experts hybrid"),
              HasSubstr("\n--experts hybrid came to resident: the rank's memory holds all experts, so none is left to "
                        "the host\n"));
  EXPECT_THAT(out("--experts gathered"), HasSubstr("--experts gathered came to resident: one rank keeps all experts"));
  for (const char* as_asked :
       {"", "--gpus 2 --experts auto", "--gpus 2 --experts gathered", "--experts host", "--gpus 2 --experts resident"})
    EXPECT_THAT(out(as_asked), AllOf(HasSubstr("asyncep, experts"), Not(HasSubstr("came to")))) << as_asked;
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
  EXPECT_THAT(error("--model Qwen3-30B-A3B --gpus 0"), HasSubstr("--gpus is 0; it must lie in [1, 1024]"));
  EXPECT_THAT(error("--model Qwen3-30B-A3B --context 0"), HasSubstr("--context is 0"));
  EXPECT_THAT(error("--model Qwen3-30B-A3B --slots 1"), HasSubstr("--slots is 1"));
  EXPECT_THAT(error("--model Qwen3-30B-A3B --window 0"), HasSubstr("--window is 0"));
  EXPECT_THAT(error("--model Qwen3-30B-A3B --gpus 0 --slots 1"),
              HasSubstr("--gpus is 0; it must lie in [1, 1024]\n--slots is 1; "));
  EXPECT_THAT(error("--model Qwen3-30B-A3B --gamma 2.5"), HasSubstr("--gamma is 2.5; it must lie in [1, 2]"));
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

// 40 short requests: when all come at once, one step has them; when one comes after the other, a millisecond apart, the
// first is done in a step of its own long before that.
TEST_F(SimulateCommand, SaysHowLongRequestsTake) {
  const std::string command = "simulate --trace " + write_trace() + " --model Qwen3-30B-A3B ";
  const json at_once = json::parse(run_program(command + "--json -").out);
  const json over_time = json::parse(run_program(command + "--arrivals trace --json -").out);
  const auto seconds = [](const json& report, const std::string& of) {
    return report.at("latency_seconds_" + of).get<double>();
  };
  for (const char* of : {"mean", "p50", "p90", "p99", "max"})
    EXPECT_NEAR(seconds(at_once, of), at_once.at("makespan_seconds").get<double>(), 1e-9) << of;
  EXPECT_LT(seconds(over_time, "p50"), seconds(at_once, "p50"));
  EXPECT_LE(seconds(over_time, "p50"), seconds(over_time, "p90"));
  EXPECT_LE(seconds(over_time, "p90"), seconds(over_time, "p99"));
  EXPECT_LE(seconds(over_time, "p99"), seconds(over_time, "max"));
  const std::string text = run_program(command + "--arrivals trace").out;
  for (const char* said : {"latency", "median", "90 % within", "99 % within", "longest"})
    EXPECT_THAT(text, HasSubstr(said));
}

TEST_F(SimulateCommand, SaysFirstWhatItSimulated) {
  const std::string trace = write_trace();
  const std::string command = "simulate --trace " + trace + " --model Qwen3-30B-A3B --dtype fp8 --gpu h100 --ranks 3 ";
  const std::string json_path = folder_.path() / "report.json";
  const Finished finished = run_program(command + "--policy least-tokens --json " + json_path);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const std::string first = finished.out.substr(0, finished.out.find('\n'));
  for (const char* said : {"Qwen3-30B-A3B", "fp8", "3 x h100", "least-tokens"}) EXPECT_THAT(first, HasSubstr(said));
  const auto report = nlohmann::ordered_json::parse(read_file(json_path));
  EXPECT_EQ(report.begin().key(), "model");
  EXPECT_EQ(report.at("model"), "Qwen3-30B-A3B");
  EXPECT_EQ(report.at("expert_type"), "fp8");
  EXPECT_EQ(report.at("gpu"), "h100");
  EXPECT_EQ(report.at("gpus"), 3);
  EXPECT_EQ(report.at("policy"), "least-tokens");
  EXPECT_TRUE(report.at("calibration").is_null());
}

// Until all tables are made anew, simulated steps are those that they were made with.
TEST_F(SimulateCommand, SaysToWhatStepsAreFilledAndHowToGetThoseOfARun) {
  const std::string command = "simulate --trace " + write_trace() + " --model Qwen3-30B-A3B ";
  EXPECT_THAT(run_program("simulate --help").out, AllOf(HasSubstr("16384 on an h200"), HasSubstr("32768")));
  const Finished usual = run_program(command);
  ASSERT_EQ(usual.exit_code, 0) << usual.err;
  EXPECT_THAT(usual.out, AllOf(HasSubstr("filled to 16384 tokens"), HasSubstr("--step-tokens 32768")));
  const Finished as_run = run_program(command + "--step-tokens 32768");
  EXPECT_THAT(as_run.out, AllOf(HasSubstr("filled to 32768 tokens"), ::testing::Not(HasSubstr("--step-tokens"))));
  EXPECT_NEAR(json::parse(run_program(command + "--json -").out).at("target_tokens").get<double>(), 16384, 1);
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

TEST_F(SimulateCommand, RefusesReportsOfWhatIsNotSimulated) {
  const std::string command = "simulate --mix paper --model Qwen3-30B-A3B --share 0.001 --write-requests " +
                              (folder_.path() / "rows.jsonl").string();
  for (const std::string option : {"--json", "--plot"}) {
    const Finished finished = run_program(fmt::format("{} {} {}", command, option, (folder_.path() / "x").string()));
    EXPECT_EQ(finished.exit_code, 1);
    EXPECT_THAT(finished.err, HasSubstr(option + " cannot be had"));
  }
}

TEST_F(SimulateCommand, ExpertsLiveWhereTheyAreAskedTo) {
  const std::string command = "simulate --trace " + write_trace() + " --model Qwen3-30B-A3B --ranks 2 --json - ";
  for (const char* experts : {"resident", "gathered", "host"}) {
    const json report = json::parse(run_program(command + "--experts " + experts).out);
    EXPECT_EQ(report.at("experts"), experts);
    EXPECT_EQ(report.at("transfer_seconds").get<double>() > 0, experts != std::string("resident"));
  }
}

// A calibration of a model in a type; the same rates for all operations.
std::string calibration_of(const std::string& model, const std::string& dtype, double rate) {
  return fmt::format(
      R"({{"format": "zeroprefill-calibration-2", "operations": "x", "model": "{}", "dtype": "{}", )"
      R"("attention_flops_per_second": {rate}, "dense_flops_per_second": {rate}, "expert_flops_per_second": {rate}, )"
      R"("peer_bytes_per_second": 1e9, "host_bytes_per_second": 1e9, "step_seconds": 0}})",
      model, dtype, fmt::arg("rate", rate));
}

// A device of a tenth of the speed takes ten times as long.
TEST_F(SimulateCommand, TakesRatesAndLinksFromACalibration) {
  const auto makespan = [&](double rate) {
    const std::string calibration = folder_.path() / "calibration.json";
    std::ofstream(calibration) << calibration_of("Qwen3-30B-A3B", "bf16", rate);
    const Finished finished = run_program("simulate --trace " + write_trace() +
                                          " --model Qwen3-30B-A3B --json - --calibration " + calibration);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_EQ(json::parse(finished.out).at("calibration"), calibration);
    return json::parse(finished.out).at("makespan_seconds").get<double>();
  };
  EXPECT_NEAR(makespan(1e13) / makespan(1e14), 10, 0.1);
}

TEST_F(SimulateCommand, APlanNamesItsCalibrationAsASimulationDoes) {
  const std::string calibration = folder_.path() / "calibration.json";
  std::ofstream(calibration) << calibration_of("Qwen3-30B-A3B", "bf16", 1e13);
  const std::string plan = "plan --model Qwen3-30B-A3B ";
  const std::string with = "--calibration " + calibration;
  EXPECT_THAT(run_program(plan + with).out, HasSubstr("from " + calibration + "\n"));
  EXPECT_EQ(json::parse(run_program(plan + "--json " + with).out).at("calibration"), calibration);
  EXPECT_TRUE(json::parse(run_program(plan + "--json").out).at("calibration").is_null());
}

// Rates may be of a model that is at hand while another is planned for, so this is no error.
TEST_F(SimulateCommand, SaysAsPlanDoesWhichModelACalibrationWasMeasuredWith) {
  const std::string calibration = folder_.path() / "calibration.json";
  const std::string simulate = "simulate --trace " + write_trace();
  for (const std::string& command : {std::string("plan"), simulate}) {
    const auto said = [&](const std::string& model, const std::string& dtype, const std::string& options) {
      std::ofstream(calibration) << calibration_of(model, dtype, 1e13);
      const Finished finished = run_program(fmt::format("{} --calibration {} {}", command, calibration, options));
      EXPECT_EQ(finished.exit_code, 0) << finished.err;
      return finished.err;
    };
    const std::string read = "read from " + calibration + ", measured with ";
    EXPECT_EQ(said("Qwen3-30B-A3B", "bf16", "--model qwen/qwen3-30b-a3b"),
              "rates and links " + read + "Qwen3-30B-A3B in bf16\n");
    EXPECT_EQ(said("demo-moe", "bf16", "--model " ZP_SOURCE_DIR "/models/demo-moe/"),
              "rates and links " + read + "demo-moe in bf16\n");
    EXPECT_THAT(said("demo-moe", "bf16", "--model Qwen3-30B-A3B"),
                AllOf(HasSubstr(read + "demo-moe in bf16\n"),
                      HasSubstr("warning: " + calibration +
                                " was measured with demo-moe in bf16, but this is Qwen3-30B-A3B in bf16")));
    EXPECT_THAT(said("Qwen3-30B-A3B", "bf16", "--model Qwen3-30B-A3B --dtype fp8"),
                HasSubstr("but this is Qwen3-30B-A3B in fp8"));
  }
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
  EXPECT_THAT(error("--trace " + trace + " --look-ahead 0"), HasSubstr("--look-ahead is 0"));
  EXPECT_THAT(error("--trace " + trace + " --ranks 0"), HasSubstr("--ranks is 0; it must lie in [1, 1024]"));
  EXPECT_THAT(error("--mix paper --arrivals trace"), HasSubstr("--arrivals is trace, but paper mix says not when"));
  EXPECT_THAT(error("--trace " + trace + " --plot /no/such/folder/p.svg"), HasSubstr("cannot be written"));
  EXPECT_THAT(error("--trace " + trace + " --mix paper"), HasSubstr("--mix"));
  EXPECT_THAT(error("--trace " + trace + " --calibration " + trace), HasSubstr("trace.jsonl"));
  EXPECT_THAT(error("--trace " + trace + " --step-tokens -1"), HasSubstr("--step-tokens is -1"));
}

}  // namespace
}  // namespace zp
