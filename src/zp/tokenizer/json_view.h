// How is a JSON value read so that every complaint names its place in the file?
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zp::tokenizer {

/// A borrowed value and its path ("model.vocab"). A value of the wrong type or a missing key throws kCorrupt.
class JsonView final {
 public:
  JsonView(simdjson::dom::element element, std::string where) : element_(element), where_(std::move(where)) {}

  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] bool is_null() const { return element_.is_null(); }
  [[nodiscard]] bool is_object() const { return element_.is_object(); }
  [[nodiscard]] bool is_string() const { return element_.is_string(); }

  [[nodiscard]] std::string_view string() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] simdjson::dom::object object() const;
  [[nodiscard]] simdjson::dom::array array() const;
  [[nodiscard]] std::vector<JsonView> elements() const;

  /// A token id: an integer from 0 up to kTokenIdMax. A larger one throws kUnsupported.
  [[nodiscard]] int32_t token_id() const;

  /// The value of a key; empty if the key is missing or its value is null.
  [[nodiscard]] std::optional<JsonView> find(std::string_view key) const;
  /// The value of a key that must be there and not null.
  [[nodiscard]] JsonView at(std::string_view key) const;
  /// A boolean with a default for a key that is missing or null.
  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const;

  /// Throws kUnsupported naming the first key that is none of `keys`, kCorrupt naming one that occurs twice.
  void allow_only(std::initializer_list<std::string_view> keys) const;

 private:
  simdjson::dom::element element_;
  std::string where_;
};

/// Ids index arrays, so that a hostile id must not make them huge. Real vocabularies end below a million.
inline constexpr int32_t kTokenIdMax = (1 << 22) - 1;

}  // namespace zp::tokenizer
