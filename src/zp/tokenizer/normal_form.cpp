// How is a text brought to a normal form of Unicode 9 with a library that knows Unicode 15?
//
// Code points that Unicode 9 did not know are starters that neither decompose nor compose, so that nothing moves
// across them: the stretches between them are normalized on their own. Normal forms of all others never change.
#include <utf8proc.h>

#include <cstdlib>

#include "zp/base/check.h"
#include "zp/base/error.h"
#include "zp/tokenizer/normalizer.h"
#include "zp/tokenizer/unicode_data.h"
#include "zp/tokenizer/utf8.h"

namespace zp::tokenizer {
namespace {

utf8proc_option_t options_of(NormalForm form) {
  constexpr int kComposed = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  constexpr int kDecomposed = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  switch (form) {
    case NormalForm::kNfc: return static_cast<utf8proc_option_t>(kComposed);
    case NormalForm::kNfd: return static_cast<utf8proc_option_t>(kDecomposed);
    case NormalForm::kNfkc: return static_cast<utf8proc_option_t>(kComposed | UTF8PROC_COMPAT);
    case NormalForm::kNfkd: return static_cast<utf8proc_option_t>(kDecomposed | UTF8PROC_COMPAT);
  }
  ZP_CHECK(false, "unknown normal form {}", static_cast<int>(form));
  return UTF8PROC_NULLTERM;
}

void append_normalized(std::string& out, std::string_view text, NormalForm form) {
  if (text.empty()) return;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (size < 0) fail(ErrorCode::kOutOfMemory, "normalizing {} bytes fails: {}", text.size(), utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
}

// Whether nothing ever composes with the code points before this one, and NFC keeps it as it is. Conservative: of
// the code points from U+0300 on, only blocks without marks, jamo and singletons are said to be plain.
bool is_plain_for_nfc(char32_t c) {
  return c < 0x300 || (c >= 0x3400 && c <= 0xA4CF) || (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0x2010 && c <= 0x20CF) ||
         (c >= 0x3003 && c <= 0x3029) || (c >= 0x30FF && c <= 0x33FF) || (c >= 0xFF01 && c <= 0xFF9D);
}

// The offset of the first code point that NFC may change or join to what precedes; text.size() if there is none.
std::size_t find_unplain(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    if (static_cast<unsigned char>(text[offset]) < 0xCC) {  // below U+0300
      ++offset;
      continue;
    }
    const CodePoint point = decode_valid(text, offset);
    if (!is_plain_for_nfc(point.value)) return offset;
    offset += point.size_bytes;
  }
  return text.size();
}

}  // namespace

std::string to_normal_form(std::string_view text, NormalForm form) {
  std::string out;
  if (form == NormalForm::kNfc && find_unplain(text) == text.size()) return std::string(text);
  out.reserve(text.size() + text.size() / 4);
  std::size_t begin = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = decode_valid(text, offset);
    if (point.value >= 0x300 && contains(inert_in_normal_forms(), point.value)) {
      append_normalized(out, text.substr(begin, offset - begin), form);
      out.append(text.substr(offset, point.size_bytes));
      begin = offset + point.size_bytes;
    }
    offset += point.size_bytes;
  }
  append_normalized(out, text.substr(begin), form);
  return out;
}

}  // namespace zp::tokenizer
