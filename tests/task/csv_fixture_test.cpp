// Does the CSV reader read what Python's csv module reads, and what a writer of our own wrote?
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/task/task_test_util.h"

namespace zp {
namespace {

using Columns = std::vector<std::pair<std::string, std::string>>;

class CsvFixture : public testing::TestWithParam<const char*> {};

// The fixtures are written by tools/task/make_csv_fixture.py.
TEST_P(CsvFixture, ReadsWhatPythonReads) {
  const std::string base = std::string(ZP_SOURCE_DIR) + "/tests/data/task/csv_" + GetParam();
  std::istringstream expected(test::read_file(base + ".expected.jsonl"));
  const std::unique_ptr<RowReader> reader = open_rows(base + ".csv");
  std::string line;
  int rows = 0;
  while (std::getline(expected, line)) {
    const std::optional<Row> row = reader->next();
    ASSERT_TRUE(row) << "after " << rows << " rows";
    ASSERT_FALSE(row->error) << row->error->message;
    EXPECT_EQ(row->columns, nlohmann::json::parse(line).get<Columns>()) << "row " << rows;
    ++rows;
  }
  EXPECT_EQ(rows, 200);
  EXPECT_FALSE(reader->next());
}

INSTANTIATE_TEST_SUITE_P(Dialects, CsvFixture,
                         testing::Values("minimal_lf", "minimal_crlf", "all_crlf", "nonnumeric_lf_bom"),
                         [](const auto& dialect) { return std::string(dialect.param); });

TEST(CsvRoundTrip, ReadsBackRandomFields) {
  const unsigned seed = 20240612;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::vector<std::string> alphabet = {"a", "\"", ",", "\n", "\r\n", "\r", " ", "\t", "\xC3\xA9", ""};
  for (int round = 0; round < 200; ++round) {
    const std::size_t column_count = 1 + random() % 4;
    const std::string line_end = random() % 2 == 0 ? "\n" : "\r\n";
    std::vector<Columns> rows(1 + random() % 5);
    std::string text;
    const auto write = [&](const std::string& field, std::size_t column) {
      std::string doubled;
      for (const char c : field) doubled += c == '"' ? "\"\"" : std::string(1, c);
      const bool must_quote =
          field.find_first_of("\",\r\n") != std::string::npos || (field.empty() && column_count == 1);
      text += must_quote || random() % 4 == 0 ? "\"" + doubled + "\"" : field;
      text += column + 1 == column_count ? line_end : ",";
    };
    for (std::size_t c = 0; c < column_count; ++c) write("n" + std::to_string(c), c);
    for (Columns& row : rows) {
      for (std::size_t c = 0; c < column_count; ++c) {
        std::string field;
        for (auto i = random() % 6; i > 0; --i) field += alphabet[random() % alphabet.size()];
        write(field, c);
        row.emplace_back("n" + std::to_string(c), field);
      }
    }
    const std::vector<Row> read = test::read_rows(RowFormat::kCsv, text);
    ASSERT_EQ(read.size(), rows.size()) << text;
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(read[i].columns, rows[i]) << text;
  }
}

}  // namespace
}  // namespace zp
