// How is TSV split into records?
#pragma once

#include <memory>
#include <string>

#include "zp/task/record_scanner.h"
#include "zp/task/text_source.h"

namespace zp {

/// Tab-separated values with no quoting: a record is a line, and every tab in it separates two fields.
class TsvScanner final : public RecordScanner {
 public:
  TsvScanner(std::unique_ptr<TextSource> source, std::size_t row_bytes_max);
  [[nodiscard]] bool next(Record& record) override;
  [[nodiscard]] int64_t taken_bytes() const noexcept override { return buffer_.taken_bytes(); }

 private:
  TextBuffer buffer_;
  const std::size_t row_bytes_max_;
  std::string text_;
};

}  // namespace zp
