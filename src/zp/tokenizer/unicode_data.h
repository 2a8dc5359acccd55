// Where do the Unicode tables of Hugging Face tokenizers differ from those of PCRE2 (14.0) and utf8proc (15.0)?
//
// That crate mixes four versions: its regular expressions (Oniguruma) and \w of added tokens know Unicode 16, its
// Lowercase and Digits Unicode 17, and its normal forms Unicode 9. All lists were found by sweeping every code point
// through both sides: tools/tokenizer/sweep_unicode.py prints them again, and a test sweeps them against ours.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace zp::tokenizer {

/// Code points from first to last, both included.
struct CodePointRange {
  char32_t first;
  char32_t last;
};

/// Code points of one general category that Oniguruma has and PCRE2 does not.
struct CategoryAddition {
  std::string_view category;  // two letters, as "Lu"
  std::span<const CodePointRange> ranges;
};

/// For the categories that gained code points, sorted by name. Nothing left any of them but U+1171E, which moved from
/// Mn to Mc, so that Mn, C and Cn are the only ones that additions cannot express.
[[nodiscard]] std::span<const CategoryAddition> category_additions();

/// What \s means: the White_Space property, which no longer changes. PCRE2 adds U+180E.
[[nodiscard]] std::span<const CodePointRange> white_space();

/// What Digits calls numeric beyond Oniguruma's \p{N}.
[[nodiscard]] std::span<const CodePointRange> extra_numeric();

/// What \w of added tokens (single_word) has beyond PCRE2's [\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}].
[[nodiscard]] std::span<const CodePointRange> extra_word();

/// Code points that the crate's normal forms do not know: for them they are starters that neither decompose nor
/// compose, whatever utf8proc thinks. (And U+11A7, which is no vowel's ending, though utf8proc 2.8 swallows it.)
[[nodiscard]] std::span<const CodePointRange> inert_in_normal_forms();

/// The lower-case form where utf8proc's simple mapping is older; U+0130 is not here, since it becomes two code points.
[[nodiscard]] char32_t to_lower(char32_t value);

/// Whether a sorted list of ranges holds the code point.
[[nodiscard]] bool contains(std::span<const CodePointRange> ranges, char32_t value);

}  // namespace zp::tokenizer
