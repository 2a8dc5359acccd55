// Profiles from files: the shipped ones, users' own, and files that are wrong.
#include "zp/plan/hardware_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace zp {
namespace {

using ::testing::HasSubstr;

const std::string kGood = R"(mine:
  memory_gib: 24
  memory_bandwidth_gb_per_s: 1000
  peer_receive_gb_per_s: 0
  host_gb_per_s: 20
  efficient_step_tokens: 4096
  bf16: {peak_tflops: 100, attention_tflops: 60, dense_tflops: 80, expert_tflops: 50}
)";

std::string problem_of(const std::string& text) {
  try {
    (void)parse_hardware(text, "f.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "none";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(HardwareFile, ReadsEveryNumberInItsUnit) {
  const HardwareProfile p = parse_hardware(kGood, "f.yaml").at(0);
  EXPECT_EQ(p.name, "mine");
  EXPECT_EQ(p.memory_bytes, uint64_t{24} << 30);
  EXPECT_EQ(p.memory_bandwidth, 1e12);
  EXPECT_EQ(p.peer_bandwidth, 0);
  EXPECT_EQ(p.host_bandwidth, 2e10);
  EXPECT_EQ(p.efficient_step_tokens, 4096);
  EXPECT_EQ(p.peak_bf16, 1e14);
  EXPECT_EQ(p.achieved_bf16, (OperationRates{.attention = 6e13, .dense = 8e13, .expert = 5e13}));
  EXPECT_EQ(p.peak_fp8, 0);
}

TEST(HardwareFile, ShipsTheDevicesThatItPromises) {
  for (const char* name : {"h200", "h100", "a100", "l40s", "b200"}) EXPECT_EQ(find_hardware(name).name, name);
  EXPECT_EQ(find_hardware("H200").name, "h200");
  EXPECT_NEAR(find_hardware("h200").peer_bandwidth, 391e9, 1);
}

TEST(HardwareFile, NamesTheProfilesThatThereAre) {
  try {
    (void)find_hardware("v100");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("'v100'; there are h200, h100, a100, l40s, b200"));
  }
}

TEST(HardwareFile, AUsersFileAddsAndReplaces) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "own.yaml";
  std::ofstream(path) << kGood << replaced(kGood, "mine:", "H200:");
  EXPECT_EQ(find_hardware("mine", path).memory_bytes, uint64_t{24} << 30);
  EXPECT_EQ(find_hardware("h200", path).memory_bytes, uint64_t{24} << 30);
  EXPECT_EQ(find_hardware("a100", path).memory_bytes, uint64_t{79} << 30);
  EXPECT_THROW((void)find_hardware("mine", folder.path() / "missing.yaml"), Error);
}

TEST(HardwareFile, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(problem_of(kGood), "none");
  EXPECT_THAT(problem_of(replaced(kGood, "  host_gb_per_s: 20\n", "")),
              HasSubstr("f.yaml:2: mine: host_gb_per_s: the key is missing"));
  EXPECT_THAT(problem_of(replaced(kGood, "20\n", "fast\n")),
              HasSubstr("f.yaml:5: mine: host_gb_per_s must be a number"));
  EXPECT_THAT(problem_of(replaced(kGood, "20\n", "-3\n")), HasSubstr("host_gb_per_s is -3; it must lie in [0.001, "));
  EXPECT_THAT(problem_of(replaced(kGood, "20\n", ".nan\n")), HasSubstr("host_gb_per_s is nan"));
  EXPECT_THAT(problem_of(replaced(kGood, "host_gb", "hots_gb")),
              HasSubstr("f.yaml:5: mine: unknown key 'hots_gb_per_s'"));
  EXPECT_THAT(problem_of(replaced(kGood, "  host_gb_per_s: 20\n", "  host_gb_per_s: 20\n  host_gb_per_s: 20\n")),
              HasSubstr("given twice"));
  EXPECT_THAT(problem_of(replaced(kGood, "expert_tflops: 50", "expert_tflops: 500")), HasSubstr("above the peak"));
  EXPECT_THAT(problem_of(replaced(kGood, "bf16: {", "bf16: [")), HasSubstr("f.yaml:7"));
  EXPECT_THAT(problem_of(kGood + kGood), HasSubstr("'mine' is given twice"));
  EXPECT_THAT(problem_of("- a\n- b\n"), HasSubstr("must be a mapping"));
  EXPECT_THAT(problem_of("mine: 3\n"), HasSubstr("must be a mapping of keys"));
  EXPECT_THAT(problem_of(""), HasSubstr("must be a mapping"));
  EXPECT_NE(problem_of(std::string(100000, '[')), "none");
}

TEST(HardwareFile, CollectsAllProblems) {
  const std::string problems =
      problem_of(replaced(replaced(kGood, "memory_gib: 24", "memory_gib: 0"), "host_gb_per_s: 20", "host_gb_per_s: 0"));
  EXPECT_THAT(problems, HasSubstr("memory_gib is 0"));
  EXPECT_THAT(problems, HasSubstr("host_gb_per_s is 0"));
}

}  // namespace
}  // namespace zp
