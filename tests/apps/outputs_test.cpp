// Outputs of `run` and `simulate` never overwrite what the command reads, nor each other.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>

#include "tests/apps/program.h"
#include "tests/support/temporary_folder.h"

namespace zp {
namespace {

using test::Finished;
using test::read_file;
using test::run_program;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kModel = ZP_SOURCE_DIR "/models/demo-moe";

/// A folder with something of each kind that commands read. Every case would do its work but for the guard.
class Outputs : public ::testing::Test {
 protected:
  Outputs() {
    std::filesystem::create_directory(folder_.path() / "model");
    for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"})
      folder_.write(std::string("model/") + name, read_file(kModel + "/" + name));
    folder_.write("rows.jsonl", "{\"tokens\": [1, 2], \"candidates\": [3, 4]}\n");
    std::filesystem::create_directory(folder_.path() / "traces");
    for (const char* name : {"trace.jsonl", "traces/part.jsonl"})
      folder_.write(name, "{\"timestamp\": 0, \"input_length\": 700, \"hash_ids\": [1, 2]}\n");
    folder_.write("calibration.json",
                  R"({"format": "zeroprefill-calibration-2", "operations": "x", "model": "m", "dtype": "bf16", )"
                  R"("attention_flops_per_second": 1e13, "dense_flops_per_second": 1e13, )"
                  R"("expert_flops_per_second": 1e13, "peer_bytes_per_second": 1e9, "host_bytes_per_second": 1e9, )"
                  R"("step_seconds": 0})");
    folder_.write("hardware.yaml",
                  "fast:\n  memory_gib: 100\n  memory_bandwidth_gb_per_s: 1000\n  peer_receive_gb_per_s: 100\n"
                  "  host_gb_per_s: 50\n  efficient_step_tokens: 1024\n  bf16: {peak_tflops: 100, attention_tflops: "
                  "50, dense_tflops: 50, expert_tflops: 50}\n");
  }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() / name; }
  void link(const std::string& target, const std::string& name) const {
    std::filesystem::create_symlink(target, folder_.path() / name);
  }

  /// Runs in the folder, so that arguments may be relative.
  [[nodiscard]] Finished finish(const std::string& arguments) const {
    const std::string here = std::filesystem::current_path();
    std::filesystem::current_path(folder_.path());
    Finished finished = run_program(arguments);
    std::filesystem::current_path(here);
    return finished;
  }
  /// Random weights and token ids.
  [[nodiscard]] Finished run(const std::string& arguments) const {
    return finish("run --model random:model --synthetic 1x16 " + arguments);
  }
  [[nodiscard]] Finished simulate(const std::string& arguments) const {
    return finish("simulate " +
                  std::string(arguments.find("--model") == std::string::npos ? "--model Qwen3-30B-A3B " : "") +
                  arguments);
  }

  /// Every file's bytes and every link's target.
  [[nodiscard]] std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path()))
      all[entry.path()] = entry.is_symlink()        ? "-> " + std::filesystem::read_symlink(entry.path()).string()
                          : entry.is_regular_file() ? read_file(entry.path())
                                                    : std::string();
    return all;
  }
  /// With `message`, before anything is loaded or written.
  template <typename Act>
  void expect_refused(const std::string& message, Act&& act) const {
    SCOPED_TRACE(message);
    const auto before = contents();
    const Finished finished = act();
    EXPECT_EQ(finished.exit_code, 1);
    EXPECT_EQ(finished.err, "zeroprefill: " + message + "\n");
    EXPECT_TRUE(contents() == before) << "files have changed";
  }
  void expect_run_refused(const std::string& arguments, const std::string& message) const {
    expect_refused(message, [&] { return run(arguments); });
  }
  void expect_simulate_refused(const std::string& arguments, const std::string& message) const {
    expect_refused(message, [&] { return simulate(arguments); });
  }

  const TemporaryFolder folder_;
};

std::string reads(const std::string& output, const std::string& file, const std::string& input) {
  return fmt::format("invalid_argument: {} is the same file as {}, which {} reads", output, file, input);
}
std::string same(const std::string& one, const std::string& other) {
  return fmt::format("invalid_argument: {} and {} are the same file", one, other);
}

TEST_F(Outputs, OfRunAreNotInTheFolderOfARandomModel) {
  expect_run_refused("--summary model/config.json",
                     reads("--summary model/config.json", "model/config.json", "--model"));
  expect_run_refused("--output model/config.json", reads("--output model/config.json", "model/config.json", "--model"));
  expect_run_refused(">>model/config.json", reads("--output -", "model/config.json", "--model"));
}

TEST_F(Outputs, OfRunAreNotTheTokenizer) {
  std::filesystem::rename(path("model/tokenizer.json"), path("traces/tokenizer.json"));
  std::filesystem::rename(path("model/tokenizer_config.json"), path("traces/tokenizer_config.json"));
  for (const std::string option : {"--summary", "--output", "--trace", "--save-calibration"}) {
    const std::string output = option + " traces/tokenizer.json";
    expect_run_refused("--tokenizer traces " + output, reads(output, "traces/tokenizer.json", "--tokenizer"));
  }
  const std::string file = "--tokenizer traces/tokenizer.json ";
  expect_run_refused(file + "--summary traces/tokenizer.json",
                     reads("--summary traces/tokenizer.json", "traces/tokenizer.json", "--tokenizer"));
  expect_run_refused(file + "--summary traces/tokenizer_config.json",
                     reads("--summary traces/tokenizer_config.json", "traces/tokenizer_config.json", "--tokenizer"));
}

// Not --output: without the guard a run would read its own answers, for ever.
TEST_F(Outputs, OfRunAreNotItsInputUnderAnotherName) {
  std::filesystem::create_hard_link(path("rows.jsonl"), path("hard.jsonl"));
  link("rows.jsonl", "soft.jsonl");
  const auto refused = [&](const std::string& arguments, const std::string& message) {
    expect_refused(message, [&] { return finish("run --model random:model " + arguments); });
  };
  for (const std::string output : {"--summary hard.jsonl", "--trace soft.jsonl"})
    refused("--input rows.jsonl " + output, reads(output, "rows.jsonl", "--input"));
  refused("--input - --summary rows.jsonl <rows.jsonl", reads("--summary rows.jsonl", "-", "--input"));
}

TEST_F(Outputs, OfSimulateAreNothingThatItReads) {
  const std::string trace = "--trace trace.jsonl ";
  expect_simulate_refused(trace + "--model model --json model/config.json",
                          reads("--json model/config.json", "model/config.json", "--model"));
  expect_simulate_refused(trace + "--json trace.jsonl", reads("--json trace.jsonl", "trace.jsonl", "--trace"));
  expect_simulate_refused(trace + "--write-requests trace.jsonl",
                          reads("--write-requests trace.jsonl", "trace.jsonl", "--trace"));
  expect_simulate_refused("--trace traces --plot traces/part.jsonl",
                          reads("--plot traces/part.jsonl", "traces/part.jsonl", "--trace"));
  expect_simulate_refused(trace + "--calibration calibration.json --plot calibration.json",
                          reads("--plot calibration.json", "calibration.json", "--calibration"));
  expect_simulate_refused(trace + "--hardware hardware.yaml --json hardware.yaml",
                          reads("--json hardware.yaml", "hardware.yaml", "--hardware"));
}

// Only some options take "-" for a standard stream.
TEST_F(Outputs, CalledDashMayBeFiles) {
  std::filesystem::rename(path("trace.jsonl"), path("-"));
  expect_simulate_refused("--trace ./- --plot -", reads("--plot -", "./-", "--trace"));
  EXPECT_EQ(simulate("--trace ./- --json -").exit_code, 0);
}

TEST_F(Outputs, AreNotOneFile) {
  expect_run_refused("--output new --summary ./new", same("--output new", "--summary ./new"));
  expect_run_refused("--trace model/../new --save-calibration " + path("new"),
                     same("--trace model/../new", "--save-calibration " + path("new")));
  expect_simulate_refused("--trace trace.jsonl --json new --plot new", same("--json new", "--plot new"));
  // Not even by way of standard output.
  expect_run_refused("--summary calibration.json >>calibration.json", same("--output -", "--summary calibration.json"));
}

TEST_F(Outputs, AreNotOneFileThatALinkWillMake) {
  link("new", "relative");
  link(path("new"), "absolute");
  link("../relative", "model/second");
  for (const std::string name : {"relative", "absolute", "model/second"}) {
    expect_run_refused(fmt::format("--trace {} --summary new", name), same("--summary new", "--trace " + name));
    expect_run_refused(fmt::format("--output {} --summary new", name), same("--output " + name, "--summary new"));
  }
}

TEST_F(Outputs, AreNotOneFileByHardLinks) {
  std::filesystem::create_hard_link(folder_.write("one", "kept"), path("two"));
  expect_run_refused("--summary one --save-calibration two", same("--summary one", "--save-calibration two"));
}

TEST_F(Outputs, ThatCannotBeWrittenAreHeardOfBeforeTheWork) {
  link("loop", "loop");
  link("missing/file", "nowhere");
  const std::string name(300, 'n');
  const auto refused = [&](const std::string& output, const std::string& there, const std::string& cause) {
    const std::string message = fmt::format("{} cannot be written: {}: {}", output, there, cause);
    expect_run_refused("--summary " + output, "io: --summary " + message);
    expect_simulate_refused("--trace trace.jsonl --plot " + output, "io: --plot " + message);
  };
  refused(name, name, "File name too long");
  refused("model", "model", "Is a directory");
  refused("missing/file", "missing", "No such file or directory");
  refused("missing/", "missing", "No such file or directory");
  refused("nowhere", "missing", "No such file or directory");
  refused("rows.jsonl/file", "rows.jsonl/file", "Not a directory");
  refused("loop", "loop", "Too many levels of symbolic links");
}

TEST_F(Outputs, NeedPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everything";
  using std::filesystem::perms;
  folder_.write("read_only", "kept");
  std::filesystem::permissions(path("read_only"), perms::owner_read);
  std::filesystem::permissions(path("traces"), perms::owner_read | perms::owner_exec);
  expect_run_refused("--summary read_only", "io: --summary read_only cannot be written: read_only: Permission denied");
  expect_run_refused("--summary traces/new", "io: --summary traces/new cannot be written: traces: Permission denied");
  // What is in a folder that cannot be listed may be read all the same.
  std::filesystem::permissions(path("model"), perms::owner_exec);
  const Finished hidden = run("--summary rows.jsonl");
  std::filesystem::permissions(path("model"), perms::owner_all);
  std::filesystem::permissions(path("traces"), perms::owner_all);
  EXPECT_THAT(hidden.err,
              AllOf(StartsWith("zeroprefill: io: --model model cannot be listed"), HasSubstr("Permission denied")));
}

TEST_F(Outputs, ThatLoseNothingMayBeGivenTwice) {
  const Finished devices = run("--output /dev/null --summary /dev/null --trace /dev/null");
  EXPECT_EQ(devices.exit_code, 0) << devices.err;
  const Finished device_read = finish("run --model random:model --input - --summary /dev/null </dev/null");
  EXPECT_EQ(device_read.exit_code, 0) << device_read.err;
  const Finished standard = run("--output - --summary -");
  EXPECT_EQ(standard.exit_code, 0) << standard.err;
  EXPECT_THAT(standard.out, AllOf(HasSubstr("\"logits\""), HasSubstr("\"wall_seconds\"")));
}

TEST_F(Outputs, MayLieBesideWhatIsRead) {
  const Finished beside = run("--summary model/summary.json");
  EXPECT_EQ(beside.exit_code, 0) << beside.err;
  EXPECT_THAT(read_file(path("model/summary.json")), HasSubstr("\"model\""));
}

}  // namespace
}  // namespace zp
