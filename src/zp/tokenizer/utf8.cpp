// How is UTF-8 walked, checked and repaired?
#include "zp/tokenizer/utf8.h"

#include <simdjson.h>

namespace zp::tokenizer {
namespace {

// What follows a lead byte: how many bytes, and the range allowed for the first of them (which is what rules out
// overlong forms, surrogates and values past U+10FFFF).
struct Sequence {
  uint32_t size_bytes;
  unsigned char second_min;
  unsigned char second_max;
};

Sequence sequence_of(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

struct Scan {
  uint32_t size_bytes;  // of the code point, or of the maximal ill-formed part
  bool valid;
};

Scan scan_code_point(std::string_view bytes, std::size_t offset) {
  const auto lead = static_cast<unsigned char>(bytes[offset]);
  if (lead < 0x80) return {1, true};
  const Sequence sequence = sequence_of(lead);
  if (sequence.size_bytes == 0) return {1, false};
  for (uint32_t i = 1; i < sequence.size_bytes; ++i) {
    if (offset + i >= bytes.size()) return {i, false};
    const auto byte = static_cast<unsigned char>(bytes[offset + i]);
    const unsigned char low = i == 1 ? sequence.second_min : 0x80;
    const unsigned char high = i == 1 ? sequence.second_max : 0xBF;
    if (byte < low || byte > high) return {i, false};
  }
  return {sequence.size_bytes, true};
}

}  // namespace

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

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return std::nullopt;
  std::size_t offset = 0;
  while (offset < text.size()) {
    const Scan scan = scan_code_point(text, offset);
    if (!scan.valid) return offset;
    offset += scan.size_bytes;
  }
  return std::nullopt;
}

std::string repair_utf8(std::string_view bytes) {
  if (simdjson::validate_utf8(bytes.data(), bytes.size())) return std::string(bytes);
  std::string repaired;
  repaired.reserve(bytes.size() + 16);
  std::size_t offset = 0;
  while (offset < bytes.size()) {
    const Scan scan = scan_code_point(bytes, offset);
    if (scan.valid) {
      repaired.append(bytes.substr(offset, scan.size_bytes));
    } else {
      append_utf8(repaired, 0xFFFD);
    }
    offset += scan.size_bytes;
  }
  return repaired;
}

}  // namespace zp::tokenizer
