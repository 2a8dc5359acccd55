// How is a text brought to a normal form of Unicode 9 with a library that knows Unicode 15?
//
// Code points that Unicode 9 did not know are starters that neither decompose nor compose, so that nothing moves
// across them: the stretches between them are normalized on their own. Normal forms of all others never change.
#include "zp/tokenizer/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "zp/base/check.h"
#include "zp/tokenizer/unicode_data.h"
#include "zp/tokenizer/utf8.h"

namespace zp::tokenizer {
namespace {

constexpr char32_t kCodePointEnd = 0x110000;
constexpr char32_t kFirstUnplainMin = 0xA0;  // no form changes a code point below

using Points = std::vector<utf8proc_int32_t>;

int combining_class(utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; }

// Appends what a code point decomposes to.
void decompose(char32_t value, int options, Points& out) {
  std::array<utf8proc_int32_t, 32> parts;  // no code point has more than 18
  int boundary_class = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(value), parts.data(), parts.size(),
                              static_cast<utf8proc_option_t>(options), &boundary_class);
  ZP_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()), "code point {} decomposes to {}",
           static_cast<uint32_t>(value), count);
  out.insert(out.end(), parts.begin(), parts.begin() + count);
}

// Puts runs of marks in canonical order. (utf8proc does so too, but takes quadratic time on hostile runs.)
void reorder(Points& points) {
  const auto is_starter = [](utf8proc_int32_t point) { return combining_class(point) == 0; };
  for (auto run = points.begin(); run != points.end();) {
    run = std::find_if_not(run, points.end(), is_starter);
    const auto end = std::find_if(run, points.end(), is_starter);
    std::stable_sort(run, end,
                     [](utf8proc_int32_t a, utf8proc_int32_t b) { return combining_class(a) < combining_class(b); });
    run = end;
  }
}

// With UTF8PROC_COMPOSE joins what composes; else changes nothing.
void compose(Points& points, int options) {
  if ((options & UTF8PROC_COMPOSE) == 0 || points.empty()) return;
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                                          static_cast<utf8proc_option_t>(options));
  ZP_CHECK(count >= 0, "composing {} code points fails with {}", points.size(), count);
  points.resize(static_cast<std::size_t>(count));
}

}  // namespace

NormalFormer::NormalFormer(NormalForm form) : plain_(kPlainEnd / 64, ~uint64_t{0}) {
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  decompose_options_ = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  options_ = UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  Points points;
  for (char32_t value = kFirstUnplainMin; value < kCodePointEnd; ++value) {
    const auto point = static_cast<utf8proc_int32_t>(value);
    const utf8proc_property_t& property = *utf8proc_get_property(point);
    if (property.combining_class != 0) clear_plain(value);
    const bool is_hangul = value >= 0xAC00 && value <= 0xD7A3;
    if (property.decomp_seqindex == UINT16_MAX && !is_hangul) continue;
    points.clear();
    decompose(value, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, points);
    // Whatever comes second in a canonical decomposition may join what precedes it.
    if (composed)
      std::for_each(points.begin() + 1, points.end(), [&](auto part) { clear_plain(static_cast<char32_t>(part)); });
    points.clear();
    decompose(value, decompose_options_, points);
    compose(points, options_);
    if (points.size() != 1 || points.front() != point) clear_plain(value);
  }
  for (const CodePointRange& range : inert_in_normal_forms()) {
    for (char32_t value = range.first; value <= range.last; ++value) clear_plain(value);
  }
}

std::size_t NormalFormer::find_unplain(std::string_view text, std::size_t offset) const {
  while (offset < text.size()) {
    if (static_cast<unsigned char>(text[offset]) < 0x80) {
      ++offset;
      continue;
    }
    const CodePoint point = decode_valid(text, offset);
    if (!is_plain(point.value)) return offset;
    offset += point.size_bytes;
  }
  return text.size();
}

std::string NormalFormer::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  std::size_t copied = 0;
  while (copied < text.size()) {
    const std::size_t unplain = find_unplain(text, copied);
    // The plain code point before may be joined by what follows; nothing before that is touched.
    std::size_t begin = unplain;
    if (unplain < text.size() && unplain > copied) begin = step_back(text, unplain);
    out.append(text.substr(copied, begin - copied));
    std::size_t end = unplain;
    while (end < text.size()) {
      const CodePoint point = decode_valid(text, end);
      if (is_plain(point.value)) break;
      end += point.size_bytes;
    }
    append_stretch(out, text.substr(begin, end - begin));
    copied = end;
  }
  return out;
}

void NormalFormer::append_stretch(std::string& out, std::string_view text) const {
  std::size_t begin = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = decode_valid(text, offset);
    if (contains(inert_in_normal_forms(), point.value)) {
      append_normalized(out, text.substr(begin, offset - begin));
      out.append(text.substr(offset, point.size_bytes));
      begin = offset + point.size_bytes;
    }
    offset += point.size_bytes;
  }
  append_normalized(out, text.substr(begin));
}

void NormalFormer::append_normalized(std::string& out, std::string_view text) const {
  Points points;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = decode_valid(text, offset);
    decompose(point.value, decompose_options_, points);
    offset += point.size_bytes;
  }
  reorder(points);
  compose(points, options_);
  for (const utf8proc_int32_t point : points) append_utf8(out, static_cast<char32_t>(point));
}

}  // namespace zp::tokenizer
