// What the tests of this module share: files that vanish, rows from text, and what an error says.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "zp/base/error.h"
#include "zp/task/row_reader.h"

namespace zp::test {

/// A folder that is removed with the object.
class TempFolder final {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "zp_task_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::vector<Row> all_rows(RowReader& reader) {
  std::vector<Row> rows;
  while (std::optional<Row> row = reader.next()) rows.push_back(*std::move(row));
  return rows;
}

inline std::vector<Row> read_rows(RowFormat format, std::string text, const RowReaderOptions& options = {}) {
  return all_rows(*make_row_reader(format, make_string_source(std::move(text)), options));
}

/// The columns as "name=value|name=value", or "error: message".
inline std::string show(const Row& row) {
  if (row.error) return "error: " + row.error->message;
  std::string text;
  for (const auto& [name, value] : row.columns) text += (text.empty() ? "" : "|") + name + "=" + value;
  return text;
}

inline std::vector<std::string> show_all(const std::vector<Row>& rows) {
  std::vector<std::string> texts;
  for (const Row& row : rows) texts.push_back(show(row));
  return texts;
}

/// The message of the Error that `act` throws, after checking its code.
template <typename Act>
std::string message_of(ErrorCode code, Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

}  // namespace zp::test
