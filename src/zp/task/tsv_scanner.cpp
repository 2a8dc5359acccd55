// Where do fields of TSV end?
#include "zp/task/tsv_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "zp/task/row_reader.h"

namespace zp {

TsvScanner::TsvScanner(std::unique_ptr<TextSource> source, std::size_t row_bytes_max)
    : buffer_(std::move(source)), row_bytes_max_(row_bytes_max) {}

bool TsvScanner::next(Record& record) {
  bool too_long = false;
  do {
    record.line = buffer_.line();
    if (!buffer_.read_line(row_bytes_max_, text_, too_long)) return false;
  } while (text_.empty() && !too_long);
  record.fields.clear();
  record.error.reset();
  const auto field_count = static_cast<std::size_t>(std::count(text_.begin(), text_.end(), '\t')) + 1;
  if (too_long || field_count > kMaxColumns) {
    record.error = RowError{
        .code = ErrorCode::kInvalidArgument,
        .message =
            too_long ? fmt::format("line {}: the row has more bytes than the limit of {}", record.line, row_bytes_max_)
                     : fmt::format("line {}: the row has {} columns, more than the limit of {}", record.line,
                                   field_count, kMaxColumns)};
    return true;
  }
  std::size_t start = 0;
  for (std::size_t i = 0; i < field_count; ++i) {
    const std::size_t end = std::min(text_.find('\t', start), text_.size());
    record.fields.emplace_back(text_, start, end - start);
    start = end + 1;
  }
  return true;
}

}  // namespace zp
