// How is a JSON value read so that every complaint names its place in the file?
#include "zp/tokenizer/json_view.h"

#include <algorithm>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"

namespace zp::tokenizer {
namespace {

template <typename T>
T read(const simdjson::dom::element& element, const std::string& where, std::string_view type) {
  T value;
  if (element.get(value) != simdjson::SUCCESS) fail(ErrorCode::kCorrupt, "{} is not {}", where, type);
  return value;
}

}  // namespace

std::string_view JsonView::string() const { return read<std::string_view>(element_, where_, "a string"); }
bool JsonView::boolean() const { return read<bool>(element_, where_, "true or false"); }
double JsonView::number() const { return read<double>(element_, where_, "a number"); }
simdjson::dom::object JsonView::object() const { return read<simdjson::dom::object>(element_, where_, "an object"); }
simdjson::dom::array JsonView::array() const { return read<simdjson::dom::array>(element_, where_, "an array"); }

std::vector<JsonView> JsonView::elements() const {
  std::vector<JsonView> views;
  for (const simdjson::dom::element element : array()) {
    views.emplace_back(element, fmt::format("{}[{}]", where_, views.size()));
  }
  return views;
}

int32_t JsonView::token_id() const {
  const auto id = read<uint64_t>(element_, where_, "a token id (an integer from 0 on)");
  if (id > static_cast<uint64_t>(kTokenIdMax)) {
    fail(ErrorCode::kUnsupported, "{} is token id {}, above the limit of {}", where_, id, kTokenIdMax);
  }
  return static_cast<int32_t>(id);
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  simdjson::dom::element value;
  if (object().at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return JsonView(value, fmt::format("{}.{}", where_, key));
}

JsonView JsonView::at(std::string_view key) const {
  std::optional<JsonView> value = find(key);
  if (!value) fail(ErrorCode::kCorrupt, "{} has no \"{}\"", where_, key);
  return *std::move(value);
}

bool JsonView::flag(std::string_view key, bool otherwise) const {
  const std::optional<JsonView> value = find(key);
  return value ? value->boolean() : otherwise;
}

void JsonView::allow_only(std::initializer_list<std::string_view> keys) const {
  std::vector<std::string_view> seen;
  for (const auto& field : object()) {
    if (std::find(keys.begin(), keys.end(), field.key) == keys.end()) {
      fail(ErrorCode::kUnsupported, "{} has the key {}, which is not supported", where_, quote_excerpt(field.key));
    }
    if (std::find(seen.begin(), seen.end(), field.key) != seen.end()) {
      fail(ErrorCode::kCorrupt, "{} has the key {} twice", where_, quote_excerpt(field.key));
    }
    seen.push_back(field.key);
  }
}

}  // namespace zp::tokenizer
