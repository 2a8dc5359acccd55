// How is CSV split into records?
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "zp/task/record_scanner.h"
#include "zp/task/text_source.h"

namespace zp {

/// CSV by RFC 4180 (see open_rows for what is refused). After an error it reads on to the end of the record, minding
/// quotes as if there were none, so the next record is the next row.
class CsvScanner final : public RecordScanner {
 public:
  CsvScanner(std::unique_ptr<TextSource> source, std::size_t row_bytes_max);
  [[nodiscard]] bool next(Record& record) override;
  [[nodiscard]] int64_t taken_bytes() const noexcept override { return buffer_.taken_bytes(); }

 private:
  enum class End { kField, kRecord };

  [[nodiscard]] bool skip_line_end();
  [[nodiscard]] End read_field(Record& record);
  [[nodiscard]] End read_bare(Record& record, std::string& field);
  void read_quoted(Record& record, std::string& field);
  void append(Record& record, std::string& field);
  void note(Record& record, std::string_view what);

  TextBuffer buffer_;
  const std::size_t row_bytes_max_;
  std::size_t kept_bytes_ = 0;  // of the record being read
};

}  // namespace zp
