// How do records and a header become rows?
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zp/task/record_scanner.h"
#include "zp/task/row_reader.h"

namespace zp {

/// Rows of CSV and TSV. The header is read by the first call of next(). If it is bad, no row can be named: each row
/// then carries the header's error, or one row does if none follows.
class DelimitedReader final : public RowReader {
 public:
  explicit DelimitedReader(std::unique_ptr<RecordScanner> scanner);
  [[nodiscard]] std::optional<Row> next() override;
  [[nodiscard]] int64_t taken_bytes() const noexcept override { return scanner_->taken_bytes(); }

 private:
  void read_header();
  void fill(Row& row);

  std::unique_ptr<RecordScanner> scanner_;
  std::optional<std::vector<std::string>> header_;  // empty until read_header()
  std::optional<RowError> header_error_;
  int64_t header_line_ = 1;
  int64_t row_count_ = 0;
  bool ended_ = false;
  Record record_;
};

}  // namespace zp
