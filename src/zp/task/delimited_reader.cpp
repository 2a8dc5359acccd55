// How is a header checked, and each record against it?
#include "zp/task/delimited_reader.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "zp/base/excerpt.h"
#include "zp/base/utf8.h"

namespace zp {
namespace {

RowError invalid(std::string message) { return {.code = ErrorCode::kInvalidArgument, .message = std::move(message)}; }

std::optional<RowError> find_bad_name(const Record& record) {
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < record.fields.size(); ++i) {
    const std::string& name = record.fields[i];
    if (const auto offset = find_invalid_utf8(name)) {
      return invalid(fmt::format("line {}: the name of column {} is not UTF-8 at its byte {}: {}", record.line, i + 1,
                                 *offset, quote_excerpt(name)));
    }
    if (name.empty()) return invalid(fmt::format("line {}: column {} of the header has no name", record.line, i + 1));
    if (const auto [other, is_new] = seen.emplace(name, i); !is_new) {
      return invalid(fmt::format("line {}: the header names {} twice, as columns {} and {}; names must be distinct",
                                 record.line, quote_excerpt(name), other->second + 1, i + 1));
    }
  }
  return std::nullopt;
}

}  // namespace

DelimitedReader::DelimitedReader(std::unique_ptr<RecordScanner> scanner) : scanner_(std::move(scanner)) {}

void DelimitedReader::read_header() {
  header_.emplace();
  if (!scanner_->next(record_)) {
    header_error_ = invalid("line 1: the file is empty; its first line must be a header that names the columns");
    return;
  }
  header_line_ = record_.line;
  header_error_ = std::move(record_.error);
  if (!header_error_) header_error_ = find_bad_name(record_);
  *header_ = std::move(record_.fields);
}

std::optional<Row> DelimitedReader::next() {
  if (!header_) read_header();
  if (ended_) return std::nullopt;
  Row row{.index = row_count_, .line = header_line_, .columns = {}, .error = header_error_};
  if (scanner_->next(record_)) {
    row.line = record_.line;
    if (!header_error_) fill(row);
  } else {
    ended_ = true;
    if (!header_error_ || row_count_ > 0) return std::nullopt;
  }
  ++row_count_;
  return row;
}

void DelimitedReader::fill(Row& row) {
  if (record_.error) {
    row.error = std::move(record_.error);
    return;
  }
  if (record_.fields.size() != header_->size()) {
    row.error = invalid(fmt::format("line {}: the row has {} fields, but the header on line {} names {} columns",
                                    row.line, record_.fields.size(), header_line_, header_->size()));
    return;
  }
  for (std::size_t i = 0; i < header_->size(); ++i) {
    if (const auto offset = find_invalid_utf8(record_.fields[i])) {
      row.error = invalid(fmt::format("line {}: column {} is not UTF-8 at its byte {}: {}", row.line,
                                      quote_excerpt((*header_)[i]), *offset, quote_excerpt(record_.fields[i])));
      row.columns.clear();
      return;
    }
    row.columns.emplace_back((*header_)[i], std::move(record_.fields[i]));
  }
}

}  // namespace zp
