// What happens to a text before it is split?
#include "zp/tokenizer/normalizer.h"

#include <optional>
#include <utility>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/tokenizer/pre_tokenizer.h"
#include "zp/tokenizer/unicode_data.h"
#include "zp/tokenizer/utf8.h"

namespace zp::tokenizer {
namespace {

constexpr int kSequenceDepthMax = 8;
constexpr char32_t kCapitalIWithDot = 0x130;

std::optional<NormalForm> normal_form_of(std::string_view type) {
  if (type == "NFC") return NormalForm::kNfc;
  if (type == "NFD") return NormalForm::kNfd;
  if (type == "NFKC") return NormalForm::kNfkc;
  if (type == "NFKD") return NormalForm::kNfkd;
  return std::nullopt;
}

std::string to_lower_case(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = decode_valid(text, offset);
    if (point.value == kCapitalIWithDot) {
      lower += "i\xCC\x87";  // the one code point whose lower-case form is two: i and a combining dot above
    } else {
      append_utf8(lower, to_lower(point.value));
    }
    offset += point.size_bytes;
  }
  return lower;
}

std::string replace_all(const Regex& pattern, std::string_view content, std::string_view text, RegexScratch& scratch) {
  std::string out;
  std::size_t copied = 0;
  MatchIterator matches(pattern, text, scratch);
  while (const std::optional<Match> match = matches.next()) {
    out.append(text.substr(copied, match->begin - copied));
    out.append(content);
    copied = match->end;
  }
  out.append(text.substr(copied));
  return out;
}

}  // namespace

Normalizer Normalizer::parse(const JsonView& json) {
  Normalizer normalizer;
  normalizer.add(json, 0);
  return normalizer;
}

void Normalizer::add(const JsonView& json, int depth) {
  if (depth > kSequenceDepthMax) fail(ErrorCode::kUnsupported, "{} is nested too deeply", json.where());
  const std::string_view type = json.at("type").string();
  if (const std::optional<NormalForm> form = normal_form_of(type)) {
    json.allow_only({"type"});
    steps_.emplace_back(NormalFormer(*form));
  } else if (type == "Lowercase") {
    json.allow_only({"type"});
    steps_.emplace_back(Lowercase{});
  } else if (type == "Prepend") {
    json.allow_only({"type", "prepend"});
    steps_.emplace_back(Prepend{std::string(json.at("prepend").string())});
  } else if (type == "Replace") {
    json.allow_only({"type", "pattern", "content"});
    steps_.emplace_back(Replace{parse_pattern(json.at("pattern")), std::string(json.at("content").string())});
  } else if (type == "Sequence") {
    json.allow_only({"type", "normalizers"});
    for (const JsonView& inner : json.at("normalizers").elements()) add(inner, depth + 1);
  } else {
    fail(ErrorCode::kUnsupported, "{} is of type {}, which is not supported", json.where(), quote_excerpt(type));
  }
}

bool Normalizer::changes_nothing(const Step& step, std::string_view text) {
  const auto* form = std::get_if<NormalFormer>(&step);
  return form != nullptr && form->find_unplain(text, 0) == text.size();
}

std::string Normalizer::run(const Step& step, std::string_view text, RegexScratch& scratch) {
  if (const auto* form = std::get_if<NormalFormer>(&step)) return form->apply(text);
  if (std::holds_alternative<Lowercase>(step)) return to_lower_case(text);
  if (const auto* prepend = std::get_if<Prepend>(&step)) {
    return text.empty() ? std::string() : prepend->prefix + std::string(text);
  }
  const Replace& replace = std::get<Replace>(step);
  return replace_all(*replace.pattern, replace.content, text, scratch);
}

std::string_view Normalizer::apply(std::string_view text, std::string& buffer, RegexScratch& scratch) const {
  for (const Step& step : steps_) {
    if (changes_nothing(step, text)) continue;
    buffer = run(step, text, scratch);
    text = buffer;
  }
  return text;
}

}  // namespace zp::tokenizer
