// Lengths have the distribution that the file gives; what is wrong is named.
#include "zp/simulate/servegen.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace zp {
namespace {

class ServeGen : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    std::filesystem::path path = std::filesystem::path(folder_.path()) / "chunk-1-dataset.json";
    std::ofstream(path) << text;
    return path;
  }
  test::TemporaryFolder folder_;
};

TEST_F(ServeGen, LengthsHaveEachWindowsDistribution) {
  const Workload w = read_servegen(write(R"({"0": {"input_tokens": "{9: 0.25, 163: 0.75}", "output_tokens": "{1: 1}"},
                                             "21600": {"input_tokens": "{50: 1.0}"}})"));
  ASSERT_EQ(w.requests.size(), 2U * kServeGenRequests);
  std::map<int64_t, int> counts;
  for (const WorkRequest& request : w.requests) ++counts[request.tokens()];
  EXPECT_NEAR(counts[9], 250, 3);
  EXPECT_NEAR(counts[163], 750, 3);
  EXPECT_EQ(counts[50], 1000);
  int changes = 0;
  for (size_t i = 1; i < 1000; ++i) changes += w.requests[i].tokens() != w.requests[i - 1].tokens() ? 1 : 0;
  EXPECT_GE(changes, 300) << "short and long ones are mixed";
  EXPECT_EQ(reusable_tokens(w), 0);
}

TEST_F(ServeGen, NamesWhatIsWrong) {
  const auto refuse = [&](const std::string& text, std::initializer_list<std::string_view> words) {
    const std::filesystem::path path = write(text);
    test::expect_error([&] { (void)read_servegen(path); }, ErrorCode::kCorrupt, words);
  };
  refuse("[]", {"chunk-1-dataset.json", "JSON object"});
  refuse("{}", {"no windows"});
  refuse(R"({"7": {}})", {"window '7'", "input_tokens", "missing"});
  refuse(R"({"7": {"input_tokens": "{9: 0.5}"}})", {"window '7'", "0.5", "come to 1"});
  refuse(R"({"7": {"input_tokens": "{0: 1}"}})", {"0 tokens", "8388608"});
  refuse(R"({"7": {"input_tokens": "{9: 2}"}})", {"probability 2"});
  refuse(R"({"7": {"input_tokens": "{9 0.5}"}})", {"':' is expected"});
  refuse(R"({"7": {"input_tokens": "{x: 1}"}})", {"'x: 1}' is not a length"});
  refuse(R"({"7": {"input_tokens": "{9: 1"}})", {"',' is expected"});
  refuse(R"({"7": {"input_tokens": ""}})", {"'{' is expected"});
}

}  // namespace
}  // namespace zp
