// Reads and makes up requests.
#include "raw_rows.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/base/whole_number.h"

namespace zp::app {
namespace {

using nlohmann::json;

int32_t parse_id(const json& value, const char* column) {
  if (value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() <= INT32_MAX)
    return value.get<int32_t>();
  // dump() goes as deep as the value does, which may be deeper than the stack.
  fail(ErrorCode::kInvalidArgument, "column '{}' has {}, which is no token id", column,
       value.is_structured() ? fmt::format("an {}", value.type_name()) : quote_excerpt(value.dump()));
}

json parse_list(const std::string& text, const char* column) {
  json list = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) fail(ErrorCode::kInvalidArgument, "column '{}' is no list", column);
  return list;
}

// A whole number in [low, high], of a column that a row need not have. An empty field is none: a table has one in every
// row or in none.
std::optional<int64_t> parse_number(const Row& row, const char* column, int64_t low, int64_t high) {
  const std::string* text = row.find(column);
  if (text == nullptr || text->empty()) return std::nullopt;
  const std::optional<int64_t> value = to_whole_number<int64_t>(*text, low, high);
  if (!value)
    fail(ErrorCode::kInvalidArgument, "column '{}' has {}; it must be a whole number in [{}, {}]", column,
         quote_excerpt(*text), low, high);
  return value;
}

Request parse_request(const Row& row) {
  const std::string* tokens = row.find("tokens");
  const std::string* context = row.find("context");
  const std::string* candidates = row.find("candidates");
  if ((tokens == nullptr) == (context == nullptr) || candidates == nullptr)
    fail(ErrorCode::kInvalidArgument,
         "the row has columns {}; it must have 'candidates', and either 'tokens' or 'context'", describe_columns(row));
  Request request;
  if (tokens != nullptr) {
    std::vector<int32_t> ids;
    for (const json& id : parse_list(*tokens, "tokens")) ids.push_back(parse_id(id, "tokens"));
    request.context = std::move(ids);
  } else {
    request.context = *context;
  }
  for (const json& candidate : parse_list(*candidates, "candidates")) {
    if (candidate.is_string())
      request.candidates.emplace_back(candidate.get<std::string>());
    else
      request.candidates.emplace_back(parse_id(candidate, "candidates"));
  }
  request.priority = static_cast<int32_t>(parse_number(row, "priority", INT32_MIN, INT32_MAX).value_or(0));
  request.deadline_ms = parse_number(row, "deadline_ms", 0, kDeadlineMsMax);
  return request;
}

class FileRows final : public RawRows {
 public:
  explicit FileRows(const std::string& path) : rows_(open_rows(path)) {}

  std::optional<RawRow> next() override {
    const std::optional<Row> row = rows_->next();
    if (!row) return std::nullopt;
    RawRow raw{row->index, RowError{}};
    if (row->error) {
      raw.request = *row->error;
      return raw;
    }
    if (const std::string* id = row->find("id")) raw.id = *id;
    try {
      raw.request = parse_request(*row);
    } catch (const Error& error) {
      raw.request = RowError{error.code(), fmt::format("line {}: {}", row->line, error.what())};
    }
    return raw;
  }

 private:
  std::unique_ptr<RowReader> rows_;
};

class SyntheticRows final : public RawRows {
 public:
  SyntheticRows(const Synthetic& synthetic, int32_t vocabulary, uint64_t seed)
      : synthetic_(synthetic), vocabulary_(vocabulary), engine_(seed) {}

  std::optional<RawRow> next() override {
    if (index_ == synthetic_.requests) return std::nullopt;
    std::vector<int32_t> ids(static_cast<size_t>(synthetic_.tokens));
    for (int32_t& id : ids) id = static_cast<int32_t>(engine_() % static_cast<uint64_t>(vocabulary_));
    Request request;
    request.context = std::move(ids);
    request.candidates = {0, vocabulary_ - 1};
    return RawRow{index_++, std::move(request)};
  }

 private:
  Synthetic synthetic_;
  int32_t vocabulary_;
  std::mt19937_64 engine_;
  int64_t index_ = 0;
};

}  // namespace

std::unique_ptr<RawRows> open_raw_rows(const std::string& path) { return std::make_unique<FileRows>(path); }

Synthetic parse_synthetic(const std::string& option, const std::string& text) {
  constexpr int64_t kMax = 1 << 24;
  if (const size_t cross = text.find('x'); cross != std::string::npos) {
    const auto requests = to_whole_number<int64_t>(text.substr(0, cross), 1, kMax);
    const auto tokens = to_whole_number<int64_t>(text.substr(cross + 1), 1, kMax);
    if (requests && tokens) return {.requests = *requests, .tokens = *tokens};
  }
  fail(ErrorCode::kInvalidArgument, "{} is {}; it must be requests x tokens, such as 32x512, each in [1, {}]", option,
       quote_excerpt(text), kMax);
}

std::unique_ptr<RawRows> make_synthetic_rows(const Synthetic& synthetic, int32_t vocabulary, uint64_t seed) {
  return std::make_unique<SyntheticRows>(synthetic, vocabulary, seed);
}

}  // namespace zp::app
