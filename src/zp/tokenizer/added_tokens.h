// Which tokens are cut out of a text before anything else happens to it?
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "zp/tokenizer/json_view.h"
#include "zp/tokenizer/normalizer.h"
#include "zp/tokenizer/regex.h"
#include "zp/tokenizer/token_matcher.h"
#include "zp/tokenizer/vocabulary.h"

namespace zp::tokenizer {

struct AddedToken {
  std::string content;
  std::string matched;       // what is looked for, and what the id decodes to: the content, normalized if `normalized`
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = false;   // looked for in normalized text
  bool special = false;
};

/// A stretch of text that either is a token (id >= 0) or is still to be encoded (id == -1).
struct Span {
  std::string_view text;
  int32_t id = -1;
};

/// The "added_tokens" of a tokenizer.json. Immutable, thread-safe.
class AddedTokens final {
 public:
  AddedTokens();

  /// Throws kCorrupt for tokens given twice and for ids other than those Hugging Face would give: the id that the
  /// vocabulary has for the token, else the next free one.
  [[nodiscard]] static AddedTokens parse(const JsonView& json, const Vocabulary& vocabulary,
                                         const Normalizer& normalizer);

  enum class Text { kRaw, kNormalized };

  /// Cuts a text at the tokens that are looked for in text of this kind. With `parse_special` false special tokens
  /// are seen but left in the text (and hide whatever tokens they hold).
  [[nodiscard]] std::vector<Span> split(std::string_view text, Text kind, bool parse_special,
                                        RegexScratch& scratch) const;

  [[nodiscard]] bool any(Text kind) const { return !matcher(kind).empty(); }
  [[nodiscard]] const AddedToken* find(int32_t id) const;
  [[nodiscard]] std::optional<int32_t> id_of(std::string_view content) const;
  /// Whether decoding may skip it: the string is the content of a special token.
  [[nodiscard]] bool is_special(std::string_view token) const { return special_.contains(std::string(token)); }
  [[nodiscard]] int32_t id_end() const { return id_end_; }  // highest id + 1; 0 without tokens

 private:
  void add(const JsonView& json, const Vocabulary& vocabulary, const Normalizer& normalizer);
  void build_matchers(const std::string& where);
  [[nodiscard]] const TokenMatcher& matcher(Text kind) const { return kind == Text::kRaw ? raw_ : normalized_; }
  [[nodiscard]] bool is_single_word(std::string_view text, const TokenMatcher::Found& found,
                                    RegexScratch& scratch) const;

  std::unordered_map<int32_t, AddedToken> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_set<std::string> special_;
  TokenMatcher raw_;
  TokenMatcher normalized_;
  std::unique_ptr<const Regex> word_character_;  // null unless a token is single_word
  int32_t id_end_ = 0;
};

}  // namespace zp::tokenizer
