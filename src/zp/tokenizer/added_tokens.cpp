// Which tokens are cut out of a text before anything else happens to it?
#include "zp/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/tokenizer/regex_translate.h"
#include "zp/tokenizer/unicode_data.h"
#include "zp/tokenizer/utf8.h"

namespace zp::tokenizer {
namespace {

std::unique_ptr<const Regex> compile_word_character() {
  constexpr std::string_view kMembers = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control})";
  return std::make_unique<const Regex>(fmt::format("\\G[{}{}]", kMembers, range_members(extra_word())));
}

// Where the white space that ends at `offset` begins, but no earlier than `limit`.
std::size_t skip_white_space_back(std::string_view text, std::size_t offset, std::size_t limit) {
  while (offset > limit) {
    const std::size_t before = step_back(text, offset);
    if (!contains(white_space(), decode_valid(text, before).value)) break;
    offset = before;
  }
  return std::max(offset, limit);
}

/// Finds where white space ends, scanning each stretch of it once however often it is asked.
class WhiteSpaceEnd final {
 public:
  explicit WhiteSpaceEnd(std::string_view text) : text_(text) {}

  std::size_t operator()(std::size_t offset) {
    if (offset >= begin_ && offset <= end_) return end_;
    begin_ = offset;
    while (offset < text_.size()) {
      const CodePoint point = decode_valid(text_, offset);
      if (!contains(white_space(), point.value)) break;
      offset += point.size_bytes;
    }
    return end_ = offset;
  }

 private:
  std::string_view text_;
  std::size_t begin_ = 1;  // the last stretch; at first one that holds no offset
  std::size_t end_ = 0;
};

}  // namespace

AddedTokens::AddedTokens() : raw_({}), normalized_({}) {}

AddedTokens AddedTokens::parse(const JsonView& json, const Vocabulary& vocabulary, const Normalizer& normalizer) {
  AddedTokens added;
  for (const JsonView& token : json.elements()) added.add(token, vocabulary, normalizer);
  added.build_matchers(json.where());
  return added;
}

void AddedTokens::add(const JsonView& json, const Vocabulary& vocabulary, const Normalizer& normalizer) {
  json.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  token.content = std::string(json.at("content").string());
  token.single_word = json.at("single_word").boolean();
  token.lstrip = json.at("lstrip").boolean();
  token.rstrip = json.at("rstrip").boolean();
  token.normalized = json.at("normalized").boolean();
  token.special = json.at("special").boolean();
  const int32_t id = json.at("id").token_id();
  if (token.content.empty()) return;  // as Hugging Face has it

  const int32_t next_id = std::max(id_end_, vocabulary.count());
  const int32_t expected = vocabulary.id_of(token.content).value_or(next_id);
  if (ids_.contains(token.content)) {
    fail(ErrorCode::kCorrupt, "{} is {}, which was added before", json.where(), quote_excerpt(token.content));
  }
  if (id != expected) {
    fail(ErrorCode::kCorrupt, "{} {} has id {}, but its place among vocabulary and added tokens gives it {}",
         json.where(), quote_excerpt(token.content), id, expected);
  }
  const std::string* other = vocabulary.token_of(id);
  if (tokens_.contains(id) || (other != nullptr && *other != token.content)) {
    fail(ErrorCode::kCorrupt, "{} {} has id {}, which is another token's", json.where(), quote_excerpt(token.content),
         id);
  }
  RegexScratch scratch;
  std::string buffer;
  token.matched = token.normalized ? std::string(normalizer.apply(token.content, buffer, scratch)) : token.content;
  if (token.matched.empty()) {
    fail(ErrorCode::kCorrupt, "{} {} is nothing once normalized", json.where(), quote_excerpt(token.content));
  }
  if (token.special) special_.insert(token.content);
  ids_.emplace(token.content, id);
  tokens_.emplace(id, std::move(token));
  id_end_ = std::max(id_end_, id + 1);
}

void AddedTokens::build_matchers(const std::string& where) {
  std::vector<std::pair<std::string, int32_t>> raw;
  std::vector<std::pair<std::string, int32_t>> normalized;
  std::unordered_set<std::string> seen;
  for (const auto& [id, token] : tokens_) {
    if (token.normalized && !seen.insert(token.matched).second) {
      fail(ErrorCode::kCorrupt, "{} holds two tokens that are {} once normalized", where, quote_excerpt(token.matched));
    }
    (token.normalized ? normalized : raw).emplace_back(token.matched, id);
    if (token.single_word && word_character_ == nullptr) word_character_ = compile_word_character();
  }
  raw_ = TokenMatcher(std::move(raw));
  normalized_ = TokenMatcher(std::move(normalized));
}

bool AddedTokens::is_single_word(std::string_view text, const TokenMatcher::Found& found, RegexScratch& scratch) const {
  const bool touches_left =
      found.begin > 0 && word_character_->find(text, step_back(text, found.begin), scratch).has_value();
  const bool touches_right = found.end < text.size() && word_character_->find(text, found.end, scratch).has_value();
  return !touches_left && !touches_right;
}

std::vector<Span> AddedTokens::split(std::string_view text, Text kind, bool parse_special,
                                     RegexScratch& scratch) const {
  std::vector<Span> spans;
  std::size_t cut = 0;  // what lies before is in `spans`
  std::size_t search = 0;
  WhiteSpaceEnd white_space_end(text);
  while (const std::optional<TokenMatcher::Found> found = matcher(kind).find(text, search)) {
    search = found->end;
    const AddedToken& token = tokens_.at(found->value);
    if (!parse_special && token.special) continue;
    if (token.single_word && !is_single_word(text, *found, scratch)) continue;
    // White space that the token before took is not taken again. The next search starts at the end of the match
    // all the same, so that a token found within that white space counts, and the cut may even move back.
    const std::size_t begin = token.lstrip ? skip_white_space_back(text, found->begin, cut) : found->begin;
    const std::size_t end = token.rstrip ? white_space_end(found->end) : found->end;
    if (cut < begin) spans.push_back({text.substr(cut, begin - cut), -1});
    if (begin < end) spans.push_back({text.substr(begin, end - begin), found->value});
    cut = end;
  }
  if (cut < text.size()) spans.push_back({text.substr(cut), -1});
  return spans;
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto token = tokens_.find(id);
  return token == tokens_.end() ? nullptr : &token->second;
}

std::optional<int32_t> AddedTokens::id_of(std::string_view content) const {
  const auto id = ids_.find(std::string(content));
  return id == ids_.end() ? std::nullopt : std::optional(id->second);
}

}  // namespace zp::tokenizer
