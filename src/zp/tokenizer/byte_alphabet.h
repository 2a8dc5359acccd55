// Which printable character stands for which byte in a byte-level vocabulary?
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zp::tokenizer {

/// The bijection of GPT-2 between the 256 bytes and 256 printable code points, all below U+0144: printable Latin-1
/// stands for itself, the other 68 bytes follow from U+0100 on in order.
class ByteAlphabet final {
 public:
  ByteAlphabet();

  /// The characters that stand for `bytes`, as UTF-8.
  [[nodiscard]] std::string to_characters(std::string_view bytes) const;

  /// The bytes that the characters of `text` (valid UTF-8) stand for; empty if any character is not of the alphabet.
  [[nodiscard]] std::optional<std::string> to_bytes(std::string_view text) const;

 private:
  static constexpr char32_t kCodePointCount = 256 + 68;
  std::array<char32_t, 256> character_of_{};
  std::array<int16_t, kCodePointCount> byte_of_{};  // -1: not of the alphabet
};

}  // namespace zp::tokenizer
