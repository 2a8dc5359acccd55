// Requests as they are, without a task: rows with token ids or texts, and made-up ones.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "zeroprefill/engine.h"
#include "zp/task/prompt.h"
#include "zp/task/row.h"
#include "zp/task/row_reader.h"

namespace zp::app {

/// A request with its row's id, or what is wrong with the row.
struct RawRow {
  RowId id;
  std::variant<Request, RowError> request;
};

/// Gives requests one after another.
class RawRows {
 public:
  virtual ~RawRows() = default;
  /// Nothing at the end.
  [[nodiscard]] virtual std::optional<RawRow> next() = 0;
};

/// Rows of a file: "tokens" (a list of ids) or "context" (a text), and "candidates" (a list of ids or of texts); where
/// there are such, "id", "priority" and "deadline_ms" (Request has them). Throws as open_rows() does.
[[nodiscard]] std::unique_ptr<RawRows> open_raw_rows(const std::string& path);

/// Requests that are made up: `requests` of `tokens` random ids each, and two candidates.
struct Synthetic {
  int64_t requests = 0;
  int64_t tokens = 0;
};
/// "32x512". Throws kInvalidArgument, naming the option.
[[nodiscard]] Synthetic parse_synthetic(const std::string& option, const std::string& text);
/// Ids lie in [0, vocabulary) and depend on the seed alone.
[[nodiscard]] std::unique_ptr<RawRows> make_synthetic_rows(const Synthetic& synthetic, int32_t vocabulary,
                                                           uint64_t seed);

}  // namespace zp::app
