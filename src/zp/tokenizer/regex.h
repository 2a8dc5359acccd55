// How is a pattern found in a text? A thin owner of a compiled PCRE2 pattern.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace zp::tokenizer {

/// Where a pattern matched: bytes from begin up to end.
struct Match {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Memory that matching needs; one a thread, for any number of patterns.
class RegexScratch final {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

/// An immutable compiled pattern. Thread-safe, given a scratch a thread.
class Regex final {
 public:
  /// Compiles a pattern in PCRE2's syntax (regex_translate.h makes those). Throws kUnsupported if PCRE2 refuses it.
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  /// The first match that starts at or after `start`. Requires valid UTF-8 and a start between code points. Throws
  /// kInvalidArgument if the text needs more memory than matching may take.
  [[nodiscard]] std::optional<Match> find(std::string_view text, std::size_t start, RegexScratch& scratch) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

/// All matches from left to right, as Oniguruma's find_iter gives them: an empty match right after the last match is
/// stepped over by one code point.
class MatchIterator final {
 public:
  MatchIterator(const Regex& regex, std::string_view text, RegexScratch& scratch)
      : regex_(regex), text_(text), scratch_(scratch) {}

  [[nodiscard]] std::optional<Match> next();

 private:
  const Regex& regex_;
  std::string_view text_;
  RegexScratch& scratch_;
  std::size_t start_ = 0;
  std::optional<std::size_t> last_end_;
};

}  // namespace zp::tokenizer
