// What is written is read; what is wrong is named.
#include "zp/schedule/calibration_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/errors.h"

namespace zp {
namespace {

using test::expect_error;

const CalibrationFile kFile{.operations = "cpu \"f32\" \\ 1",
                            .model = {.name = "caf\xc3\xa9 \"A\\B\"", .dtype = "bf16"},
                            .measured = {.rates = {.attention = 1.0 / 3 * 1e12, .dense = 5e9, .expert = 7e8},
                                         .links = {.peer = 123456789.123, .host = 0},
                                         .step_seconds = 1e-5 / 3}};

TEST(CalibrationFile, ReadsWhatItWritesToTheLastDigit) {
  const CalibrationFile read = parse_calibration(format_calibration(kFile), "f");
  EXPECT_EQ(read.operations, kFile.operations);
  EXPECT_EQ(read.model, kFile.model);
  EXPECT_EQ(read.measured.rates, kFile.measured.rates);
  EXPECT_EQ(read.measured.links.peer, kFile.measured.links.peer);
  EXPECT_EQ(read.measured.links.host, 0);
  EXPECT_EQ(read.measured.step_seconds, kFile.measured.step_seconds);
}

// The dense rate, as it is written.
const std::string kDense = fmt::format("{}", 5e9);

std::string with(const std::string& from, const std::string& to) {
  std::string text = format_calibration(kFile);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST(CalibrationFile, NamesWhatIsWrong) {
  const auto refuse = [](const std::string& text, std::initializer_list<std::string_view> words) {
    expect_error([&] { (void)parse_calibration(text, "cal.json"); }, ErrorCode::kCorrupt, words);
  };
  refuse("", {"cal.json", "JSON"});
  refuse("[1]", {"cal.json", "JSON"});
  refuse(with("calibration-2", "calibration-3"), {"format", "calibration-3"});
  refuse(with("\"model\"", "\"name\""), {"cal.json: model is missing"});
  refuse(with("\"bf16\"", "16"), {"cal.json: dtype is missing or no string"});
  refuse(with("\"bf16\"", "\"\""), {"cal.json: dtype is empty"});
  refuse(with("\"bf16\"", "\"\\u001b[1m\""), {"cal.json: dtype has control characters"});
  refuse(with("bf16", std::string(1025, 'x')), {"cal.json: dtype has 1025 bytes", "at most 1024"});
  refuse(with("\"dense_flops_per_second\"", "\"dense\""), {"dense_flops_per_second", "missing"});
  refuse(with(kDense, "0"), {"dense_flops_per_second", "is 0", "1e+18"});
  refuse(with(kDense, "\"fast\""), {"dense_flops_per_second"});
  refuse(with("\"host_bytes_per_second\": 0", "\"host_bytes_per_second\": -1"), {"host_bytes_per_second", "-1"});
  refuse(with("\"host_bytes_per_second\": 0", "\"host_bytes_per_second\": 1e-300"),
         {"host_bytes_per_second", "0 or lie"});
}

// The first version did not name the model: rates that nobody can place are measured again.
TEST(CalibrationFile, OfTheFirstVersionSaysToMeasureAgain) {
  const std::string first =
      R"({"format": "zeroprefill-calibration-1", "operations": "cpu f32", "attention_flops_per_second": 1e9,
          "dense_flops_per_second": 1e9, "expert_flops_per_second": 1e9, "peer_bytes_per_second": 0,
          "host_bytes_per_second": 0, "step_seconds": 0})";
  expect_error([&] { (void)parse_calibration(first, "cal.json"); }, ErrorCode::kCorrupt,
               {"cal.json", "zeroprefill-calibration-1", "which model", "measure again", "--save-calibration"});
}

TEST(CalibrationFile, IsFoundByItsPath) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "zp_calibration.json";
  std::ofstream(path) << format_calibration(kFile);
  EXPECT_EQ(read_calibration(path).measured.rates, kFile.measured.rates);
  std::ofstream(path) << "{}";
  expect_error([&] { (void)read_calibration(path); }, ErrorCode::kCorrupt, {path.string()});
  std::filesystem::remove(path);
  expect_error([&] { (void)read_calibration(path); }, ErrorCode::kNotFound, {path.string()});
}

}  // namespace
}  // namespace zp
