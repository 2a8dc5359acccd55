// How is a pattern written for Oniguruma (what Hugging Face tokenizers use) said so that PCRE2 means the same?
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "zp/tokenizer/unicode_data.h"

namespace zp::tokenizer {

/// The members of a class, in PCRE2's notation for use between brackets: some ranges, white space, or a general
/// category ("L", "Nd") with the code points that PCRE2's Unicode lacks.
[[nodiscard]] std::string range_members(std::span<const CodePointRange> ranges);
[[nodiscard]] std::string white_space_members();
[[nodiscard]] std::string category_members(std::string_view category);

/// Translates the part of Oniguruma's syntax that byte-level tokenizers use: literals, alternation, groups (?:) (?i:)
/// (?=) (?!) (?>), classes, \s \S \d \D \p{..} \P{..}, '.', and quantifiers. Whatever else the pattern holds, and
/// whatever the two libraries read differently, throws kUnsupported with the construct and its offset.
[[nodiscard]] std::string translate_pattern(std::string_view pattern);

/// A pattern that matches `text` and nothing else.
[[nodiscard]] std::string literal_pattern(std::string_view text);

}  // namespace zp::tokenizer
