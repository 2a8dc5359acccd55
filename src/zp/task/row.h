// What is one row of the input, and what is wrong with it when it could not be read?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zp/base/error.h"

namespace zp {

/// Why one row has no answer. It is a value: the rows after it go on.
struct RowError {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;  ///< A whole sentence that names the thing, its value and the limit.
};

/// One row. Either `error` is set and `columns` is empty, or every name and value is valid UTF-8 and names are
/// distinct.
///
/// Values are text, whatever the format was. From JSON lines: a string is itself, a number is the digits as written
/// (1.0 stays "1.0"), true and false are themselves, and an object or array is compact JSON (no spaces, strings escaped
/// minimally, numbers as written). A column that is null has no value: for all uses the row lacks it, but messages say
/// that it is null. (An empty field of CSV is the empty text.)
struct Row {
  int64_t index = 0;                                         ///< 0-based, counts every row, the bad ones too.
  int64_t line = 0;                                          ///< 1-based line on which the row starts.
  std::vector<std::pair<std::string, std::string>> columns;  ///< In the order of the file.
  std::vector<std::string> nulls{};                          ///< Names of the columns that are null, in this order too.
  std::optional<RowError> error;

  /// The value of a column, or nullptr. Valid while the row is.
  [[nodiscard]] const std::string* find(std::string_view column) const noexcept;
  [[nodiscard]] bool is_null(std::string_view column) const noexcept;
};

/// The row's column names for a message: quoted, separated by commas, at most 20 of them, those that are null last.
[[nodiscard]] std::string describe_columns(const Row& row);

}  // namespace zp
