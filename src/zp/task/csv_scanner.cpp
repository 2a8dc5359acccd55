// Where do fields and records of CSV end, and what breaks its rules?
#include "zp/task/csv_scanner.h"

#include <fmt/format.h>

#include <utility>

#include "zp/task/row_reader.h"

namespace zp {

CsvScanner::CsvScanner(std::unique_ptr<TextSource> source, std::size_t row_bytes_max)
    : buffer_(std::move(source)), row_bytes_max_(row_bytes_max) {}

bool CsvScanner::next(Record& record) {
  while (skip_line_end()) {
  }
  if (buffer_.peek() == TextBuffer::kEnd) return false;
  record.line = buffer_.line();
  record.fields.clear();
  record.error.reset();
  kept_bytes_ = 0;
  while (read_field(record) == End::kField) {
  }
  if (record.error) record.fields.clear();
  return true;
}

bool CsvScanner::skip_line_end() {
  const bool crlf = buffer_.peek() == '\r' && buffer_.peek(1) == '\n';
  if (!crlf && buffer_.peek() != '\n') return false;
  if (crlf) buffer_.take();
  buffer_.take();
  return true;
}

CsvScanner::End CsvScanner::read_field(Record& record) {
  if (record.fields.size() == kMaxColumns)
    note(record, fmt::format("has more columns than the limit of {}", kMaxColumns));
  if (record.error) record.fields.clear();
  std::string& field = record.fields.emplace_back();
  if (buffer_.peek() == '"') {
    read_quoted(record, field);
    const int next = buffer_.peek();
    const bool ends =
        next == ',' || next == '\n' || next == TextBuffer::kEnd || (next == '\r' && buffer_.peek(1) == '\n');
    if (!ends) note(record, "has text after a closing quote; a quote inside a quoted field must be doubled");
  }
  return read_bare(record, field);
}

CsvScanner::End CsvScanner::read_bare(Record& record, std::string& field) {
  while (true) {
    if (skip_line_end()) return End::kRecord;
    switch (buffer_.peek()) {
      case TextBuffer::kEnd: return End::kRecord;
      case ',': buffer_.take(); return End::kField;
      case '"':
        note(record, "has a quote inside a field that does not start with one; quote the field and double it");
        break;
      case '\r': note(record, "has a carriage return without a line feed outside quotes"); break;
      default: break;
    }
    append(record, field);
  }
}

void CsvScanner::read_quoted(Record& record, std::string& field) {
  const int64_t opened_line = buffer_.line();
  buffer_.take();
  while (true) {
    const int next = buffer_.peek();
    if (next == TextBuffer::kEnd) {
      note(record, fmt::format("has a quote, opened on line {}, that is not closed before the file ends", opened_line));
      return;
    }
    if (next == '"') {
      buffer_.take();
      if (buffer_.peek() != '"') return;
    }
    append(record, field);
  }
}

void CsvScanner::append(Record& record, std::string& field) {
  if (++kept_bytes_ > row_bytes_max_) note(record, fmt::format("has more bytes than the limit of {}", row_bytes_max_));
  if (!record.error) field.push_back(static_cast<char>(buffer_.peek()));
  buffer_.take();
}

void CsvScanner::note(Record& record, std::string_view what) {
  if (record.error) return;
  record.error =
      RowError{.code = ErrorCode::kInvalidArgument, .message = fmt::format("line {}: the row {}", record.line, what)};
}

}  // namespace zp
