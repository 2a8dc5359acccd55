// Which printable character stands for which byte in a byte-level vocabulary?
#include "zp/tokenizer/byte_alphabet.h"

#include "zp/base/check.h"
#include "zp/tokenizer/utf8.h"

namespace zp::tokenizer {

ByteAlphabet::ByteAlphabet() {
  byte_of_.fill(-1);
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    const char32_t character = printable ? byte : next++;
    character_of_[byte] = character;
    byte_of_[character] = static_cast<int16_t>(byte);
  }
  ZP_CHECK(next == kCodePointCount, "the alphabet ends at {}, not at {}", static_cast<uint32_t>(next),
           static_cast<uint32_t>(kCodePointCount));
}

std::string ByteAlphabet::to_characters(std::string_view bytes) const {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(text, character_of_[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<std::string> ByteAlphabet::to_bytes(std::string_view text) const {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = decode_valid(text, offset);
    if (point.value >= kCodePointCount || byte_of_[point.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte_of_[point.value]));
    offset += point.size_bytes;
  }
  return bytes;
}

}  // namespace zp::tokenizer
