// Requests as rows: the lengths and the sharing of the workload, ids within the vocabulary.
#include "zp/simulate/request_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace zp::test {
namespace {

TEST(RequestFile, HoldsTheLengthsAndTheSharing) {
  Workload workload{.name = "w", .parts = {"a", "b"}, .requests = {}};
  workload.requests.push_back({.pieces = {{1, 0, 40}, {100, 0, 10}}, .part = 0});
  workload.requests.push_back({.pieces = {{1, 0, 40}, {101, 0, 20}}, .part = 0});
  workload.requests.push_back({.pieces = {{2, 0, 30}}, .part = 1});
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  constexpr int32_t kVocabulary = 1000;
  write_requests(workload, kVocabulary, path);
  std::vector<nlohmann::json> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) rows.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(rows.size(), 3U);
  std::vector<std::vector<int32_t>> tokens;
  for (const auto& row : rows) {
    tokens.push_back(row.at("tokens"));
    for (const int32_t id : tokens.back()) EXPECT_TRUE(id >= 0 && id < kVocabulary) << id;
    EXPECT_EQ(row.at("candidates").size(), 2U);
  }
  EXPECT_EQ(rows[2].at("id"), "b/2");
  EXPECT_EQ(tokens[0].size(), 50U);
  EXPECT_EQ(tokens[1].size(), 60U);
  EXPECT_EQ(tokens[2].size(), 30U);
  EXPECT_TRUE(std::equal(tokens[0].begin(), tokens[0].begin() + 40, tokens[1].begin()));
  EXPECT_FALSE(std::equal(tokens[0].begin() + 40, tokens[0].end(), tokens[1].begin() + 40));
  EXPECT_GT(std::set<int32_t>(tokens[0].begin(), tokens[0].end()).size(), 40U);
}

TEST(RequestFile, AFileThatCannotBeWrittenIsNamed) {
  const Workload workload{.name = "w", .parts = {"a"}, .requests = {}};
  expect_error([&] { write_requests(workload, 10, "/no/such/folder/rows.jsonl"); }, ErrorCode::kIo,
               {"/no/such/folder/rows.jsonl"});
}

}  // namespace
}  // namespace zp::test
