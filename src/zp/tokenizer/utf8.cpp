// How is UTF-8 walked and repaired?
#include "zp/tokenizer/utf8.h"

#include "zp/base/utf8.h"

namespace zp::tokenizer {
void append_utf8(std::string& out, char32_t value) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | (value >> 6));
    put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | (value >> 12));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | (value >> 18));
    put(0x80 | ((value >> 12) & 0x3F));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  }
}

std::string repair_utf8(std::string_view bytes) {
  if (!find_invalid_utf8(bytes)) return std::string(bytes);
  std::string repaired;
  repaired.reserve(bytes.size() + 16);
  std::size_t offset = 0;
  while (offset < bytes.size()) {
    const Utf8Part part = first_utf8_part(bytes.substr(offset));
    if (part.valid) {
      repaired.append(bytes.substr(offset, part.size_bytes));
    } else {
      append_utf8(repaired, 0xFFFD);
    }
    offset += part.size_bytes;
  }
  return repaired;
}

}  // namespace zp::tokenizer
