// How do JSON lines become rows?
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "zp/task/row_reader.h"

namespace zp {

/// One JSON object a line (see Row for how values become text). A line that is anything else becomes an error row.
class JsonlReader final : public RowReader {
 public:
  JsonlReader(std::unique_ptr<TextSource> source, const RowReaderOptions& options);
  ~JsonlReader() override;
  [[nodiscard]] std::optional<Row> next() override;
  [[nodiscard]] int64_t taken_bytes() const noexcept override { return buffer_.taken_bytes(); }

 private:
  class ObjectParser;  // keeps simdjson out of this header

  TextBuffer buffer_;
  const std::size_t row_bytes_max_;
  std::unique_ptr<ObjectParser> parser_;
  std::string text_;
  int64_t row_count_ = 0;
};

}  // namespace zp
