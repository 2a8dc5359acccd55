// How is a pattern written for Oniguruma said so that PCRE2 means the same?
#include "zp/tokenizer/regex_translate.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "zp/base/error.h"
#include "zp/base/utf8.h"
#include "zp/tokenizer/utf8.h"

namespace zp::tokenizer {
namespace {

constexpr int kGroupDepthMax = 64;

// The categories that a pattern may name. Absent: C, Cn and Mn, which lost code points since PCRE2's Unicode.
constexpr std::array<std::string_view, 33> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mc", "Me", "N", "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

bool is_ascii_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_ascii_digit(char32_t c) { return c >= '0' && c <= '9'; }

std::string code_point_member(char32_t value) { return fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(value)); }

std::string range_member(char32_t first, char32_t last) {
  return fmt::format("{}-{}", code_point_member(first), code_point_member(last));
}

std::string non_white_space_members() {
  std::string members;
  char32_t next = 0;
  for (const CodePointRange& range : white_space()) {
    if (range.first > next) members += range_member(next, range.first - 1);
    next = range.last + 1;
  }
  return members + range_member(next, 0x10FFFF);
}

/// One pass over the pattern; `out_` is the translation of everything before `offset_`.
class Translator final {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    if (find_invalid_utf8(pattern_)) fail(ErrorCode::kCorrupt, "a pattern is not valid UTF-8");
    alternatives(0, false);
    if (!at_end()) refuse("an unmatched ')'");
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool at_end() const { return offset_ >= pattern_.size(); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return offset_ + ahead < pattern_.size() ? pattern_[offset_ + ahead] : '\0';
  }
  char32_t take() {
    if (at_end()) refuse("an end where a character is needed");
    const CodePoint point = decode_valid(pattern_, offset_);
    offset_ += point.size_bytes;
    return point.value;
  }
  bool accept(std::string_view text) {
    if (!pattern_.substr(offset_).starts_with(text)) return false;
    offset_ += text.size();
    return true;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::kUnsupported, "pattern \"{}\" has {} near offset {}, which is not supported", pattern_, what,
         offset_);
  }

  void alternatives(int depth, bool caseless) {
    if (depth > kGroupDepthMax) refuse("groups nested too deeply");
    char32_t previous_letter = 0;  // for the folds of two letters, which only one of the libraries knows
    while (!at_end() && peek() != ')') {
      if (accept("|")) {
        out_ += '|';
        previous_letter = 0;
        continue;
      }
      const char32_t letter = atom(depth, caseless);
      if (caseless && letter != 0) refuse_multi_letter_fold(previous_letter, letter);
      const bool quantified = quantifier();
      if (quantified && caseless && letter != 0) refuse("a quantified letter in a caseless group");
      previous_letter = letter;
    }
  }

  // Returns the literal ASCII letter in lower case, or 0 for anything else.
  char32_t atom(int depth, bool caseless) {
    const char c = peek();
    if (c == '(') {
      const bool looks = peek(1) == '?' && (peek(2) == '=' || peek(2) == '!');
      group(depth, caseless);
      if (looks && std::string_view("?*+{").find(peek()) != std::string_view::npos && !at_end()) {
        refuse("a quantified look-ahead");
      }
      return 0;
    }
    if (c == '^' || c == '$') refuse("an anchor");
    if (c == '*' || c == '+' || c == '?' || c == '{') refuse("a quantifier with nothing to repeat");
    if (c == ']' || c == '}') refuse("an unmatched bracket");
    const bool is_set =
        c == '[' || c == '.' || (c == '\\' && std::string_view("sSdDpP").find(peek(1)) != std::string_view::npos);
    if (is_set) {
      if (caseless) refuse("a class in a caseless group");
      set();
      return 0;
    }
    const char32_t literal = c == '\\' ? escaped_literal() : take();
    if (caseless && literal >= 0x80) refuse("a caseless character beyond ASCII");
    out_ += code_point_literal(literal);
    return is_ascii_letter(literal) ? (literal | 0x20) : 0;
  }

  static std::string code_point_literal(char32_t value) {
    if (value < 0x80 && !is_ascii_letter(value) && !is_ascii_digit(value)) return code_point_member(value);
    std::string text;
    append_utf8(text, value);
    return text;
  }

  void refuse_multi_letter_fold(char32_t first, char32_t second) const {
    const bool folds = (first == 'f' && (second == 'f' || second == 'i' || second == 'l')) ||
                       (first == 's' && (second == 's' || second == 't'));
    if (folds) refuse("letters that fold together");
  }

  void group(int depth, bool caseless) {
    bool inner_caseless = caseless;
    if (accept("(?:")) {
      out_ += "(?:";
    } else if (accept("(?i:")) {
      out_ += "(?i:";
      inner_caseless = true;
    } else if (accept("(?=")) {
      out_ += "(?=";
    } else if (accept("(?!")) {
      out_ += "(?!";
    } else if (accept("(?>")) {
      out_ += "(?>";
    } else if (peek(1) == '?' || peek(1) == '*') {
      refuse("a group of an unknown kind");
    } else {
      ++offset_;
      out_ += "(?:";  // nothing refers to captures
    }
    alternatives(depth + 1, inner_caseless);
    if (!accept(")")) refuse("a group without its end");
    out_ += ')';
  }

  bool quantifier() {
    const char c = peek();
    bool counted = false;
    if (c == '?' || c == '*' || c == '+') {
      ++offset_;
      out_ += c;
    } else if (c == '{') {
      counted_quantifier();
      counted = true;
    } else {
      return false;
    }
    if (peek() == '?') {
      if (counted && out_.find(',', out_.rfind('{')) == std::string::npos) refuse("'{n}?'");
      ++offset_;
      out_ += '?';
    } else if (peek() == '+') {
      if (counted) refuse("'{n,m}+'");
      ++offset_;
      out_ += '+';
    }
    if (peek() == '?' || peek() == '*' || peek() == '+' || peek() == '{') refuse("a repeated quantifier");
    return true;
  }

  void counted_quantifier() {
    ++offset_;
    const std::optional<uint32_t> low = number();
    std::optional<uint32_t> high = low;
    const bool has_comma = accept(",");
    if (has_comma) high = number();
    if (!accept("}") || (!low && !high)) refuse("a '{' that starts no quantifier");
    if (high && low.value_or(0) > *high) refuse("a quantifier whose bounds are swapped");
    out_ += fmt::format("{{{}", low.value_or(0));
    if (has_comma) out_ += high ? fmt::format(",{}", *high) : ",";
    out_ += '}';
  }

  std::optional<uint32_t> number() {
    if (!is_ascii_digit(static_cast<unsigned char>(peek()))) return std::nullopt;
    uint32_t value = 0;
    while (is_ascii_digit(static_cast<unsigned char>(peek()))) {
      value = value * 10 + static_cast<uint32_t>(peek() - '0');
      if (value > 1000) refuse("a count above 1000");
      ++offset_;
    }
    return value;
  }

  void set() {
    if (accept(".")) {
      out_ += "[^\\n]";
      return;
    }
    if (accept("[")) {
      bracket_class();
      return;
    }
    bool negated = false;
    const std::string members = escaped_set(negated);
    out_ += fmt::format("[{}{}]", negated ? "^" : "", members);
  }

  // Reads \s, \p{..} and their negations; the members are those of the positive set.
  std::string escaped_set(bool& negated) {
    ++offset_;
    const char kind = static_cast<char>(take());
    negated = kind == 'S' || kind == 'D' || kind == 'P';
    if (kind == 's' || kind == 'S') return white_space_members();
    if (kind == 'd' || kind == 'D') return category_members("Nd");
    if (!accept("{")) refuse("a property without braces");
    if (accept("^")) negated = !negated;
    const std::size_t end = pattern_.find('}', offset_);
    if (end == std::string_view::npos) refuse("a property without its end");
    const std::string_view name = pattern_.substr(offset_, end - offset_);
    bool known = false;
    for (const std::string_view category : kCategories) known = known || category == name;
    if (!known) refuse(fmt::format("the property \"{}\"", name));
    offset_ = end + 1;
    return category_members(name);
  }

  void bracket_class() {
    out_ += accept("^") ? "[^" : "[";
    if (peek() == ']') refuse("a class that starts with ']'");
    while (peek() != ']') {
      if (at_end()) refuse("a class without its end");
      if (peek() == '[') refuse("a class within a class");
      if (pattern_.substr(offset_).starts_with("&&")) refuse("an intersection of classes");
      class_member();
    }
    ++offset_;
    out_ += ']';
  }

  void class_member() {
    if (peek() == '\\' && std::string_view("sSdDpP").find(peek(1)) != std::string_view::npos) {
      const bool is_space = peek(1) == 's' || peek(1) == 'S';
      bool negated = false;
      const std::string members = escaped_set(negated);
      if (negated && !is_space) refuse("a negated property within a class");
      out_ += negated ? non_white_space_members() : members;
      if (peek() == '-' && peek(1) != ']') refuse("a '-' after a set");
      return;
    }
    const char32_t first = peek() == '\\' ? escaped_literal() : take();
    if (peek() != '-' || peek(1) == ']') {
      out_ += code_point_member(first);
      return;
    }
    ++offset_;
    if (peek() == '[') refuse("a class within a class");
    const char32_t last = peek() == '\\' ? escaped_literal() : take();
    if (last < first) refuse("a range whose ends are swapped");
    out_ += range_member(first, last);
  }

  char32_t escaped_literal() {
    ++offset_;
    const char32_t c = take();
    switch (c) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'f': return '\f';
      case 'v': return '\v';
      case 'a': return 0x07;
      case 'e': return 0x1B;
      case 'x': return accept("{") ? hexadecimal(1, 6, true) : byte_escape();
      case 'u': return hexadecimal(4, 4, false);
      default: break;
    }
    if (is_ascii_letter(c) || is_ascii_digit(c) || c >= 0x80) {
      offset_ -= c < 0x80 ? 1 : 0;
      refuse("an escape of unknown meaning");
    }
    return c;
  }

  // \xHH names a byte of the encoding for Oniguruma, so that only ASCII means the same to both.
  char32_t byte_escape() {
    const char32_t value = hexadecimal(2, 2, false);
    if (value >= 0x80) refuse("a byte escape beyond ASCII");
    return value;
  }

  char32_t hexadecimal(int digits_min, int digits_max, bool braced) {
    char32_t value = 0;
    int digits = 0;
    while (digits < digits_max) {
      const char c = peek();
      const bool is_hex =
          is_ascii_digit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!is_hex) break;
      value = value * 16 +
              static_cast<char32_t>(is_ascii_digit(static_cast<unsigned char>(c)) ? c - '0' : (c | 0x20) - 'a' + 10);
      ++digits;
      ++offset_;
    }
    if (digits < digits_min || (braced && !accept("}"))) refuse("a malformed code point escape");
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) refuse("an escape that is no code point");
    return value;
  }

  std::string_view pattern_;
  std::size_t offset_ = 0;
  std::string out_;
};

}  // namespace

std::string range_members(std::span<const CodePointRange> ranges) {
  std::string members;
  for (const CodePointRange& range : ranges) {
    members += code_point_member(range.first);
    if (range.last != range.first) members += fmt::format("-{}", code_point_member(range.last));
  }
  return members;
}

std::string white_space_members() { return range_members(white_space()); }

std::string category_members(std::string_view category) {
  std::string members = fmt::format("\\p{{{}}}", category);
  for (const CategoryAddition& addition : category_additions()) {
    if (addition.category.starts_with(category)) members += range_members(addition.ranges);
  }
  return members;
}

std::string translate_pattern(std::string_view pattern) { return Translator(pattern).run(); }

std::string literal_pattern(std::string_view text) {
  std::string pattern;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = decode_valid(text, offset);
    pattern += code_point_member(point.value);
    offset += point.size_bytes;
  }
  return pattern;
}

}  // namespace zp::tokenizer
