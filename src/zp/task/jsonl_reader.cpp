// How is one JSON object checked whole and its values written as text?
#include "zp/task/jsonl_reader.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <string_view>
#include <unordered_set>
#include <utility>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/base/utf8.h"
#include "zp/task/json_text.h"
#include "zp/task/text_check.h"

namespace zp {

/// Fills a row's columns. simdjson's on-demand parser checks only what is visited, so every value is visited.
class JsonlReader::ObjectParser final {
 public:
  /// Throws Error kInvalidArgument with what is wrong. `text` gains capacity, which simdjson reads past the end.
  void parse(std::string& text, Row& row) {
    text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
    try {
      auto document = parser_.iterate(simdjson::padded_string_view(text.data(), text.size(), text.capacity())).value();
      if (document.type().value() != simdjson::ondemand::json_type::object) {
        fail(ErrorCode::kInvalidArgument, "must be a JSON object, but is {}", quote_excerpt(text));
      }
      std::unordered_set<std::string> names;
      for (auto field : document.get_object()) {
        std::string name(field.unescaped_key().value());
        if (!names.insert(name).second) {
          fail(ErrorCode::kInvalidArgument, "names {} twice; names must be distinct", quote_excerpt(name));
        }
        if (names.size() > kMaxColumns) {
          fail(ErrorCode::kInvalidArgument, "has more columns than the limit of {}", kMaxColumns);
        }
        Value value = field.value();
        if (is_null(value)) {
          row.nulls.push_back(std::move(name));
          continue;
        }
        std::string value_text;
        append_value(value, 0, value_text);
        row.columns.emplace_back(std::move(name), std::move(value_text));
      }
      if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
        fail(ErrorCode::kInvalidArgument, "has text after the JSON object");
    } catch (const simdjson::simdjson_error& error) {
      fail(ErrorCode::kInvalidArgument, "is not valid JSON: {}", error.what());
    }
  }

 private:
  using Value = simdjson::ondemand::value;
  using Type = simdjson::ondemand::json_type;
  static constexpr int kMaxDepth = 64;

  static bool is_null(Value& value) {
    return value.type().value() == Type::null && strip_whitespace(value.raw_json_token()) == "null";
  }

  /// `depth` 0 is a column's value, where a string is bare; deeper, all is compact JSON.
  void append_value(Value value, int depth, std::string& out) {
    switch (value.type().value()) {
      case Type::object: return append_object(value.get_object().value(), depth + 1, out);
      case Type::array: return append_array(value.get_array().value(), depth + 1, out);
      case Type::string: {
        const std::string_view text = value.get_string().value();
        if (depth == 0) {
          out += text;
        } else {
          append_json_string(text, out);
        }
        return;
      }
      case Type::number:
      case Type::boolean:
      case Type::null: return append_token(strip_whitespace(value.raw_json_token()), out);
    }
  }

  static void append_token(std::string_view token, std::string& out) {
    if (token != "true" && token != "false" && token != "null" && !is_json_number(token)) {
      fail(ErrorCode::kInvalidArgument, "is not valid JSON: {} is no value", quote_excerpt(token));
    }
    out += token;
  }

  void append_array(simdjson::ondemand::array array, int depth, std::string& out) {
    check_depth(depth);
    char separator = '[';
    for (auto element : array) {
      out += separator;
      append_value(element.value(), depth, out);
      separator = ',';
    }
    if (separator == '[') out += '[';
    out += ']';
  }

  void append_object(simdjson::ondemand::object object, int depth, std::string& out) {
    check_depth(depth);
    char separator = '{';
    for (auto field : object) {
      out += separator;
      append_json_string(field.unescaped_key().value(), out);
      out += ':';
      append_value(field.value(), depth, out);
      separator = ',';
    }
    if (separator == '{') out += '{';
    out += '}';
  }

  /// Bounds the recursion, which a hostile line could otherwise drive to the end of the stack.
  static void check_depth(int depth) {
    if (depth > kMaxDepth) fail(ErrorCode::kInvalidArgument, "nests values deeper than the limit of {}", kMaxDepth);
  }

  simdjson::ondemand::parser parser_;
};

JsonlReader::JsonlReader(std::unique_ptr<TextSource> source, const RowReaderOptions& options)
    : buffer_(std::move(source)), row_bytes_max_(options.row_bytes_max), parser_(std::make_unique<ObjectParser>()) {}

JsonlReader::~JsonlReader() = default;

std::optional<Row> JsonlReader::next() {
  Row row;
  bool too_long = false;
  do {
    row.line = buffer_.line();
    if (!buffer_.read_line(row_bytes_max_, text_, too_long)) return std::nullopt;
  } while (!too_long && strip_whitespace(text_).empty());
  row.index = row_count_++;
  const auto refuse = [&row](std::string_view what) {
    row.columns.clear();
    row.nulls.clear();
    row.error =
        RowError{.code = ErrorCode::kInvalidArgument, .message = fmt::format("line {}: the row {}", row.line, what)};
  };
  if (too_long) {
    refuse(fmt::format("has more bytes than the limit of {}", row_bytes_max_));
  } else if (const auto offset = find_invalid_utf8(text_)) {
    refuse(fmt::format("is not UTF-8 at its byte {}", *offset));
  } else {
    try {
      parser_->parse(text_, row);
    } catch (const Error& error) {
      refuse(error.what());
    }
  }
  return row;
}

}  // namespace zp
