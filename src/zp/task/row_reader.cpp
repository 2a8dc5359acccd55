// Which format does a path name, and who reads it?
#include "zp/task/row_reader.h"

#include <filesystem>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/task/csv_scanner.h"
#include "zp/task/delimited_reader.h"
#include "zp/task/jsonl_reader.h"
#include "zp/task/text_check.h"
#include "zp/task/tsv_scanner.h"

namespace zp {

std::unique_ptr<RowReader> make_row_reader(RowFormat format, std::unique_ptr<TextSource> source,
                                           const RowReaderOptions& options) {
  switch (format) {
    case RowFormat::kJsonLines: return std::make_unique<JsonlReader>(std::move(source), options);
    case RowFormat::kCsv:
      return std::make_unique<DelimitedReader>(std::make_unique<CsvScanner>(std::move(source), options.row_bytes_max));
    case RowFormat::kTsv:
      return std::make_unique<DelimitedReader>(std::make_unique<TsvScanner>(std::move(source), options.row_bytes_max));
  }
  fail(ErrorCode::kInvalidArgument, "row format {} is unknown", static_cast<int>(format));
}

std::unique_ptr<RowReader> open_rows(const std::string& path, const RowReaderOptions& options) {
  if (path == "-") return make_row_reader(RowFormat::kJsonLines, open_stdin_source(), options);
  const std::string extension = ascii_lower(std::filesystem::path(path).extension().string());
  std::optional<RowFormat> format;
  if (extension == ".jsonl") format = RowFormat::kJsonLines;
  if (extension == ".csv") format = RowFormat::kCsv;
  if (extension == ".tsv") format = RowFormat::kTsv;
  if (!format) {
    fail(ErrorCode::kInvalidArgument,
         "{} has the extension {}; rows are read from .jsonl, .csv and .tsv files, or from - as JSON lines", path,
         quote_excerpt(extension));
  }
  return make_row_reader(*format, open_file_source(path), options);
}

}  // namespace zp
