// Every option that takes a whole number refuses all else alike: by option, value and limits.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "tests/apps/program.h"

namespace zp {
namespace {

using test::Finished;
using test::run_program;
using ::testing::HasSubstr;

// As --help has them: "  --seed UINT=1 ...".
std::vector<std::string> whole_number_options(const std::string& command) {
  std::vector<std::string> options;
  std::istringstream help(run_program(command + " --help").out);
  for (std::string option, type, line; std::getline(help, line);) {
    std::istringstream words(line);
    words >> option >> type;
    if (option.starts_with("--") && (type.starts_with("INT") || type.starts_with("UINT"))) options.push_back(option);
  }
  return options;
}

class WholeNumbers : public testing::TestWithParam<const char*> {};

TEST_P(WholeNumbers, AreRefusedByOptionValueAndLimits) {
  const std::string command = GetParam();
  const std::vector<std::string> options = whole_number_options(command);
  EXPECT_GE(options.size(), 5U);
  for (const std::string& option : options)
    for (const std::string& value :
         {std::string("-1"), std::string("99999999999999999999"), std::string("12x"), std::string("0x10"),
          std::string("1.5"), std::string("1e3"), std::string("\" 1\"")}) {
      const Finished finished = run_program(fmt::format("{} --model nowhere {} {}", command, option, value));
      EXPECT_EQ(finished.exit_code, 2) << option << " " << value;
      EXPECT_THAT(finished.err, HasSubstr(option + " is ")) << value;
      EXPECT_THAT(finished.err, HasSubstr("; it must be a whole number in [0, ")) << value;
      const bool is_number = value.find_first_not_of("-0123456789") == std::string::npos;
      if (is_number) {
        EXPECT_THAT(finished.err, HasSubstr(" is " + value + ";"));
      }
    }
}

INSTANTIATE_TEST_SUITE_P(EveryCommand, WholeNumbers, testing::Values("plan", "simulate", "run"),
                         [](const auto& command) { return std::string(command.param); });

TEST(WholeNumber, ALongOneIsCut) {
  EXPECT_THAT(run_program("plan --model Qwen3-30B-A3B --gpus " + std::string(1000, '9')).err,
              HasSubstr("--gpus is '" + std::string(60, '9') + "...'; it must be a whole number"));
  EXPECT_EQ(run_program("run --model /nowhere --synthetic 1x1 --step-target " + std::string(1000, '9')).exit_code, 1);
  EXPECT_THAT(run_program("run --model /nowhere --synthetic 1x1 --step-target 0000000000000000000008").err,
              HasSubstr("/nowhere"));
}

TEST(WholeNumber, TheLimitIsThatOfItsType) {
  const std::string simulate = "simulate --model Qwen3-30B-A3B --mix paper ";
  EXPECT_THAT(run_program(simulate + "--look-ahead 99999999999999").err,
              HasSubstr("--look-ahead is 99999999999999; it must be a whole number in [0, 2147483647]"));
  EXPECT_THAT(run_program(simulate + "--seed -1").err,
              HasSubstr("--seed is -1; it must be a whole number in [0, 18446744073709551615]"));
  const std::string write = simulate + "--share 0.0001 --order shuffled --write-requests /dev/null ";
  EXPECT_EQ(run_program(write + "--seed 18446744073709551615").exit_code, 0);
  EXPECT_EQ(run_program(write + "--seed 18446744073709551616").exit_code, 2);
}

// Not octal.
TEST(WholeNumber, AZeroInFrontChangesNothing) {
  EXPECT_THAT(run_program("plan --model Qwen3-30B-A3B --gpus 010").out, HasSubstr("10 x h200"));
}

TEST(WholeNumber, HelpShowsWhatHoldsWithoutTheOption) {
  EXPECT_THAT(run_program("simulate --help").out, HasSubstr("--look-ahead INT=32768"));
  EXPECT_THAT(run_program("run --help").out, HasSubstr("--random-seed UINT=1"));
}

}  // namespace
}  // namespace zp
