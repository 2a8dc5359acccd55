// Lines of results say what they are of.
#include "bench/result_lines.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace zp::bench {
namespace {

uint64_t hash_of(std::string_view text) {
  OutputHash hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.value();
}

// Of the test vectors of FNV-1a, 64 bits: http://www.isthe.com/chongo/src/fnv/test_fnv.c
TEST(OutputHash, IsFnv1a) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325U);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8U);
}

std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(ResultFile, AddsToEveryLineWhatItIsOf) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "lines.jsonl";
  const std::array arguments = {"build/bench/some_bench", "--device", "cuda"};
  const RunFacts facts{
      .command = command_of(arguments.size(), arguments.data()), .commit = "abc1234", .device = "cpu (x)", .seed = 7};
  ResultFile(path, "abc1234").write({{"ms", 1.5}}, facts, 0xfeU);
  ResultFile(path, "abc1234").write({{"ms", 2.5}}, facts, std::nullopt);
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2U);
  const nlohmann::json first = {{"ms", 1.5},           {"command", "some_bench --device cuda"},
                                {"commit", "abc1234"}, {"device", "cpu (x)"},
                                {"seed", 7},           {"output_hash", "00000000000000fe"}};
  EXPECT_EQ(lines[0], first);
  EXPECT_TRUE(lines[1].at("output_hash").is_null());
}

TEST(ResultFile, NamesAGpu) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "lines.jsonl";
  ResultFile(path, "c").write({}, {.command = "", .commit = "c", .device = "cuda:0 (NVIDIA H200)", .seed = 1},
                              std::nullopt);
  const nlohmann::json line = lines_of(path).at(0);
  EXPECT_EQ(line.at("gpu"), "cuda:0 (NVIDIA H200)");
  EXPECT_FALSE(line.contains("device"));
}

TEST(ResultFile, IsNotWrittenWithoutACommit) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "lines.jsonl";
  test::expect_error([&] { const ResultFile file(path, ""); }, ErrorCode::kInvalidArgument, {path, "--commit"});
  EXPECT_FALSE(std::filesystem::exists(path));
  ResultFile("", "").write({{"ms", 1.5}}, {}, 1);  // no file is asked for, so none is missed
  test::expect_error([&] { const ResultFile file(folder.path() / "none" / "lines", "abc"); }, ErrorCode::kIo, {"none"});
}

}  // namespace
}  // namespace zp::bench
