// What does a delimited format promise the reader that turns its records into rows?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zp/task/row.h"

namespace zp {

/// One record of a delimited file. With an error, `fields` is empty.
struct Record {
  int64_t line = 0;  ///< 1-based line on which the record starts.
  std::vector<std::string> fields;
  std::optional<RowError> error;
};

/// Splits bytes into records; knows nothing of headers. Bounded by the row limit and kMaxColumns.
class RecordScanner {
 public:
  virtual ~RecordScanner() = default;
  /// Reads the next record into `record`, whose memory is reused; false at the end. Throws Error kIo.
  [[nodiscard]] virtual bool next(Record& record) = 0;
  /// Bytes of the source that have been read.
  [[nodiscard]] virtual int64_t taken_bytes() const noexcept = 0;
};

}  // namespace zp
