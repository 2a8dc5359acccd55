// The fixtures of the tokenizer: what Hugging Face tokenizers did with some texts (tests/data/tokenizer/README.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace zp::test {

inline std::filesystem::path fixture_path(std::string_view name) {
  return std::filesystem::path(ZP_SOURCE_DIR) / "tests/data/tokenizer" / name;
}

inline std::string read_fixture(std::string_view name) {
  std::ifstream file(fixture_path(name), std::ios::binary);
  if (!file) throw std::runtime_error("no fixture " + std::string(name));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The rows of a fixture with a JSON value a line.
inline std::vector<nlohmann::json> read_rows(std::string_view name) {
  std::ifstream file(fixture_path(name));
  if (!file) throw std::runtime_error("no fixture " + std::string(name));
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

/// The checksum of zlib's crc32, so that a large expected value can be a number.
inline uint32_t crc32(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

}  // namespace zp::test
