// How are rows read from a file, one at a time, whatever its format?
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "zp/task/row.h"
#include "zp/task/text_source.h"

namespace zp {

struct RowReaderOptions {
  std::size_t row_bytes_max = std::size_t{16} << 20;  ///< A larger row becomes an error; memory stays bounded.
};

/// The most columns a row may have; a row with more is an error.
inline constexpr std::size_t kMaxColumns = 16384;

enum class RowFormat { kJsonLines, kCsv, kTsv };

/// Reads rows in order and never goes back, holding one at a time. A row that cannot be read carries an error and
/// the next call goes on after it. One thread at a time.
class RowReader {
 public:
  virtual ~RowReader() = default;
  /// The next row, or empty at the end. May block on the source. Throws Error kIo only if the source fails.
  [[nodiscard]] virtual std::optional<Row> next() = 0;
  /// Bytes of the source that the rows so far took: how far along it is.
  [[nodiscard]] virtual int64_t taken_bytes() const noexcept = 0;
};

/// Opens a file by its extension, in any case: .jsonl, .csv or .tsv; "-" is standard input as JSON lines.
/// Throws Error: kInvalidArgument for another extension, kNotFound or kIo if the file cannot be opened.
///
/// JSON lines: one object a line; blank lines are skipped; the names of one object must differ.
/// CSV (RFC 4180): a header row; fields quoted with '"', which is doubled inside; commas and line breaks inside quotes;
/// lines end with LF or CRLF; a quote inside a bare field, text after a closing quote or a lone CR is an error.
/// TSV: a header row; fields are separated by tabs and never quoted, so a '"' is itself and a field holds neither tab
/// nor line break. This is how IANA registers the format and what `cut` and spreadsheets' "unformatted text" agree on.
/// CSV and TSV skip empty lines. Where the header is bad, each row carries its error, or one row does if there are
/// none. Every format skips a UTF-8 byte order mark.
[[nodiscard]] std::unique_ptr<RowReader> open_rows(const std::string& path, const RowReaderOptions& options = {});

/// Reads rows of a known format from any source.
[[nodiscard]] std::unique_ptr<RowReader> make_row_reader(RowFormat format, std::unique_ptr<TextSource> source,
                                                         const RowReaderOptions& options = {});

}  // namespace zp
