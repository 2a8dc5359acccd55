// Do any bytes give rows that are whole or carry an error, in bounded memory, whatever the format?
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "zp/base/utf8.h"
#include "zp/task/row_reader.h"

namespace {

constexpr zp::RowReaderOptions kOptions{.row_bytes_max = 256};

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<zp::Row> read(zp::RowFormat format, std::string text, const zp::RowReaderOptions& options) {
  const auto reader = zp::make_row_reader(format, zp::make_string_source(std::move(text)), options);
  std::vector<zp::Row> rows;
  while (std::optional<zp::Row> row = reader->next()) rows.push_back(*std::move(row));
  return rows;
}

void check_rows(const std::vector<zp::Row>& rows) {
  int64_t line = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const zp::Row& row = rows[i];
    require(row.index == static_cast<int64_t>(i) && row.line >= 1 && row.line >= line);
    line = row.line;
    require(!row.error || (row.columns.empty() && row.nulls.empty() && !row.error->message.empty()));
    std::set<std::string> names;
    for (const auto& [name, value] : row.columns) {
      require(!zp::find_invalid_utf8(name) && !zp::find_invalid_utf8(value) && names.insert(name).second);
    }
    for (const std::string& name : row.nulls) require(!zp::find_invalid_utf8(name) && names.insert(name).second);
  }
}

std::string quoted(const std::string& field) {
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

/// What was read from CSV, written with every field quoted, must be read as the same again.
void check_csv_round_trip(const std::vector<zp::Row>& rows) {
  for (const zp::Row& row : rows) {
    if (row.error) continue;
    std::string header;
    std::string fields;
    for (const auto& [name, value] : row.columns) {
      header += (header.empty() ? "" : ",") + quoted(name);
      fields += (fields.empty() ? "" : ",") + quoted(value);
    }
    const auto again = read(zp::RowFormat::kCsv, header + "\r\n" + fields + "\r\n", {});
    require(again.size() == 1 && !again[0].error && again[0].columns == row.columns);
  }
}

/// The reader and nlohmann must agree on what one line is, our own limits aside.
void check_json_line(const std::string& line) {
  const auto rows = read(zp::RowFormat::kJsonLines, line, kOptions);
  if (rows.empty() || line.find('\0') != std::string::npos) return;  // nlohmann takes a NUL for the end
  const auto parsed = nlohmann::json::parse(line, nullptr, false);
  if (rows[0].error) {
    const std::string& message = rows[0].error->message;
    const bool own_limit = message.find("limit") != std::string::npos || message.find("twice") != std::string::npos;
    require(own_limit || !parsed.is_object());
  } else {
    // nlohmann refuses numbers that no double holds; we keep a number's digits.
    require(parsed.is_object() || line.find_first_of("eE") != std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto format = static_cast<zp::RowFormat>(data[0] % 3);
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto rows = read(format, text, kOptions);
  check_rows(rows);
  if (format == zp::RowFormat::kCsv) check_csv_round_trip(rows);
  if (format == zp::RowFormat::kJsonLines) check_json_line(text.substr(0, text.find('\n')));
  return 0;
}
