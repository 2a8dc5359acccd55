// Reads and makes up requests.
#include "raw_rows.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "zp/base/error.h"

namespace zp::app {
namespace {

using nlohmann::json;

int32_t parse_id(const json& value, const char* column) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > INT32_MAX)
    fail(ErrorCode::kInvalidArgument, "column '{}' has {}, which is no token id", column, value.dump());
  return value.get<int32_t>();
}

json parse_list(const std::string& text, const char* column) {
  json list = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) fail(ErrorCode::kInvalidArgument, "column '{}' is no list", column);
  return list;
}

Request parse_request(const Row& row) {
  const std::string* tokens = row.find("tokens");
  const std::string* context = row.find("context");
  const std::string* candidates = row.find("candidates");
  if ((tokens == nullptr) == (context == nullptr) || candidates == nullptr)
    fail(ErrorCode::kInvalidArgument, "the row has columns {}; it must have 'candidates', and 'tokens' or 'context'",
         describe_columns(row));
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
  Synthetic parsed;
  const char* end = text.data() + text.size();
  const auto [cross, first] = std::from_chars(text.data(), end, parsed.requests);
  if (first == std::errc() && cross != end && *cross == 'x') {
    const auto [stop, second] = std::from_chars(cross + 1, end, parsed.tokens);
    const bool whole = second == std::errc() && stop == end;
    if (whole && parsed.requests >= 1 && parsed.requests <= kMax && parsed.tokens >= 1 && parsed.tokens <= kMax)
      return parsed;
  }
  fail(ErrorCode::kInvalidArgument, "{} is '{}'; it must be requests x tokens, such as 32x512, each in [1, {}]", option,
       text, kMax);
}

std::unique_ptr<RawRows> make_synthetic_rows(const Synthetic& synthetic, int32_t vocabulary, uint64_t seed) {
  return std::make_unique<SyntheticRows>(synthetic, vocabulary, seed);
}

}  // namespace zp::app
