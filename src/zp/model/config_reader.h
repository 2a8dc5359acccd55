// Typed access to the keys of a config.json, with errors that name file, key and value.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zp {

/// Borrows the parsed document. A key that is absent or null takes the fallback; without one it throws kCorrupt.
class ConfigReader final {
 public:
  ConfigReader(const std::filesystem::path& path, simdjson::dom::element root) : path_(path), root_(root) {}

  [[nodiscard]] int32_t count(std::string_view key, std::optional<int32_t> fallback = std::nullopt) const;
  [[nodiscard]] double number(std::string_view key, std::optional<double> fallback = std::nullopt) const;
  [[nodiscard]] bool flag(std::string_view key, bool fallback) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view fallback) const;
  /// Absent or null gives an empty list.
  [[nodiscard]] std::vector<int32_t> counts(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const;
  /// The object under `key`, or nothing when it is absent or null.
  [[nodiscard]] std::optional<ConfigReader> object(std::string_view key) const;

  /// Throws kUnsupported: the key has a value that changes results and is not implemented.
  [[noreturn]] void unsupported(std::string_view key, std::string_view reason) const;
  [[noreturn]] void corrupt(std::string_view key, std::string_view reason) const;

 private:
  [[nodiscard]] std::optional<simdjson::dom::element> find(std::string_view key) const;

  std::filesystem::path path_;
  simdjson::dom::element root_;
};

}  // namespace zp
