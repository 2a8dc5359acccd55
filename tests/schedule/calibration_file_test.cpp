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
                            .measured = {.rates = {.attention = 1.0 / 3 * 1e12, .dense = 5e9, .expert = 7e8},
                                         .links = {.peer = 123456789.123, .host = 0},
                                         .step_seconds = 1e-5 / 3}};

TEST(CalibrationFile, ReadsWhatItWritesToTheLastDigit) {
  const CalibrationFile read = parse_calibration(format_calibration(kFile), "f");
  EXPECT_EQ(read.operations, kFile.operations);
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
  refuse(with("calibration-1", "calibration-2"), {"format", "calibration-2"});
  refuse(with("\"dense_flops_per_second\"", "\"dense\""), {"dense_flops_per_second", "missing"});
  refuse(with(kDense, "0"), {"dense_flops_per_second", "is 0", "1e+18"});
  refuse(with(kDense, "\"fast\""), {"dense_flops_per_second"});
  refuse(with("\"host_bytes_per_second\": 0", "\"host_bytes_per_second\": -1"), {"host_bytes_per_second", "-1"});
  refuse(with("\"host_bytes_per_second\": 0", "\"host_bytes_per_second\": 1e-300"),
         {"host_bytes_per_second", "0 or lie"});
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
