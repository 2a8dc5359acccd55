// What `run` saves of its measurements and reads again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
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
using test::TemporaryFolder;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kRoot = ZP_SOURCE_DIR;
const std::string kTask = "run --dtype f32 --model " + kRoot + "/models/demo-moe --task " + kRoot +
                          "/examples/tasks/intent.yaml --input " + kRoot + "/examples/rows/intent.jsonl ";

// A few steps, which take far less than the rates of the file say.
TEST(Calibration, SaysWhereRatesAreFromAndSavesThemUnbent) {
  const TemporaryFolder folder;
  const std::string known = folder.path() / "known.json";
  const std::string saved = folder.path() / "saved.json";
  const Finished first = run_program(kTask + "--save-calibration " + known);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("measured: attention "));
  json slow = json::parse(read_file(known));
  for (const char* rate : {"attention_flops_per_second", "dense_flops_per_second", "expert_flops_per_second"})
    slow[rate] = 1e8;
  std::ofstream(known) << slow;
  const Finished second = run_program(kTask + "--calibration " + known + " --save-calibration " + saved +
                                      " --summary " + std::string(folder.path() / "summary.json"));
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("read from " + known + ", measured with demo-moe in f32: attention 100 MFLOP/s"));
  EXPECT_THAT(second.err, Not(AnyOf(HasSubstr("measured: "), HasSubstr("warning"))));
  const json in_use = json::parse(read_file(folder.path() / "summary.json")).at("saturation");
  ASSERT_GT(in_use.at("dense_flops_per_second").get<double>(), 1e9) << "the run has found out";
  EXPECT_EQ(json::parse(read_file(saved)), slow);
}

TEST(Calibration, SavesRatesWithTheModelThatTheyAreOfAndWarnsOfAnothers) {
  const TemporaryFolder folder;
  const std::string known = folder.path() / "known.json";
  const std::string saved = folder.path() / "saved.json";
  const Finished first = run_program(kTask + "--save-calibration " + known);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  json other = json::parse(read_file(known));
  EXPECT_EQ(other.at("model"), "demo-moe");
  EXPECT_EQ(other.at("dtype"), "f32");
  other["model"] = "larger";
  other["dtype"] = "bf16";
  for (const char* rate : {"attention_flops_per_second", "dense_flops_per_second", "expert_flops_per_second"})
    other[rate] = 1e8;
  std::ofstream(known) << other;
  const std::string again = kTask + "--calibration " + known + " --save-calibration " + saved;

  // A few steps correct nothing of what is saved: it is the other model's still.
  const Finished few = run_program(again);
  ASSERT_EQ(few.exit_code, 0) << few.err;
  EXPECT_THAT(few.err, HasSubstr("read from " + known + ", measured with larger in bf16: attention"));
  EXPECT_THAT(few.err,
              HasSubstr("warning: " + known + " was measured with larger in bf16, but this is demo-moe in f32"));
  EXPECT_EQ(json::parse(read_file(saved)), other);

  // Many do.
  const Finished many = run_program(again + " --step-tokens 64 --step-target 64");
  ASSERT_EQ(many.exit_code, 0) << many.err;
  const json corrected = json::parse(read_file(saved));
  ASSERT_NE(corrected.at("dense_flops_per_second"), 1e8);
  EXPECT_EQ(corrected.at("model"), "demo-moe");
  EXPECT_EQ(corrected.at("dtype"), "f32");
}

}  // namespace
}  // namespace zp
