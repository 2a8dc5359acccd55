// Where is a text cut into words that merges never cross?
#include "zp/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/tokenizer/regex_translate.h"
#include "zp/tokenizer/unicode_data.h"

namespace zp::tokenizer {
namespace {

constexpr int kSequenceDepthMax = 8;

// The pattern of GPT-2, which ByteLevel applies unless told not to.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::unique_ptr<const Regex> compile(std::string_view pattern) {
  return std::make_unique<const Regex>(translate_pattern(pattern));
}

std::unique_ptr<const Regex> compile_class(const std::string& members) {
  return std::make_unique<const Regex>(fmt::format("[{}]", members));
}

}  // namespace

std::unique_ptr<const Regex> parse_pattern(const JsonView& json) {
  json.allow_only({"Regex", "String"});
  const std::optional<JsonView> regex = json.find("Regex");
  const std::optional<JsonView> text = json.find("String");
  if (regex.has_value() == text.has_value()) {
    fail(ErrorCode::kCorrupt, "{} needs either \"Regex\" or \"String\"", json.where());
  }
  const std::string_view pattern = regex ? regex->string() : text->string();
  if (pattern.empty()) fail(ErrorCode::kUnsupported, "{} is an empty pattern", json.where());
  if (regex) return compile(pattern);
  return std::make_unique<const Regex>(literal_pattern(pattern));
}

PreTokenizer PreTokenizer::parse(const JsonView& json) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add(json, 0);
  if (!pre_tokenizer.has_byte_level_) {
    fail(ErrorCode::kUnsupported, "{} has no ByteLevel step, and only byte-level vocabularies are supported",
         json.where());
  }
  return pre_tokenizer;
}

PreTokenizer::Behavior PreTokenizer::parse_behavior(const JsonView& json) {
  const std::string_view name = json.string();
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  fail(ErrorCode::kUnsupported, "{} is {}, which is not supported", json.where(), quote_excerpt(name));
}

void PreTokenizer::add(const JsonView& json, int depth) {
  if (depth > kSequenceDepthMax) fail(ErrorCode::kUnsupported, "{} is nested too deeply", json.where());
  const std::string_view type = json.at("type").string();
  if (type == "Sequence") {
    json.allow_only({"type", "pretokenizers"});
    for (const JsonView& inner : json.at("pretokenizers").elements()) add(inner, depth + 1);
    return;
  }
  if (has_byte_level_) fail(ErrorCode::kUnsupported, "{} follows a ByteLevel step, which must be last", json.where());
  Step step;
  if (type == "ByteLevel") {
    json.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    step.add_prefix_space = json.at("add_prefix_space").boolean();
    if (json.flag("use_regex", true)) step.pattern = compile(kGpt2Pattern);
    has_byte_level_ = true;
  } else if (type == "Split") {
    json.allow_only({"type", "pattern", "behavior", "invert"});
    step.pattern = parse_pattern(json.at("pattern"));
    step.behavior = parse_behavior(json.at("behavior"));
    step.invert = json.at("invert").boolean();
  } else if (type == "Digits") {
    json.allow_only({"type", "individual_digits"});
    step.pattern = compile_class(category_members("N") + range_members(extra_numeric()));
    step.behavior = json.at("individual_digits").boolean() ? Behavior::kIsolated : Behavior::kContiguous;
  } else if (type == "WhitespaceSplit") {
    json.allow_only({"type"});
    step.pattern = compile_class(white_space_members());
    step.behavior = Behavior::kRemoved;
  } else {
    fail(ErrorCode::kUnsupported, "{} is of type {}, which is not supported", json.where(), quote_excerpt(type));
  }
  steps_.push_back(std::move(step));
}

void PreTokenizer::split(std::string_view text, RegexScratch& scratch, WordSink& sink) const {
  run(0, text, scratch, sink);
}

void PreTokenizer::run(std::size_t step, std::string_view piece, RegexScratch& scratch, WordSink& sink) const {
  if (piece.empty()) return;
  if (step == steps_.size()) {
    sink.on_word(piece);
    return;
  }
  const Step& current = steps_[step];
  std::string prefixed;
  if (current.add_prefix_space && piece.front() != ' ') {
    prefixed.reserve(piece.size() + 1);
    prefixed.append(" ").append(piece);
    piece = prefixed;
  }
  if (current.pattern == nullptr) {
    run(step + 1, piece, scratch, sink);
  } else if (current.behavior == Behavior::kIsolated) {
    cut_isolated(step, piece, scratch, sink);
  } else {
    for (const Match& range : join(find_pieces(current, piece, scratch), current.behavior)) {
      run(step + 1, piece.substr(range.begin, range.end - range.begin), scratch, sink);
    }
  }
}

// The common case, without a list of pieces: matches and what lies between them become pieces alike.
void PreTokenizer::cut_isolated(std::size_t step, std::string_view piece, RegexScratch& scratch, WordSink& sink) const {
  MatchIterator matches(*steps_[step].pattern, piece, scratch);
  std::size_t cut = 0;
  while (const std::optional<Match> match = matches.next()) {
    run(step + 1, piece.substr(cut, match->begin - cut), scratch, sink);
    run(step + 1, piece.substr(match->begin, match->end - match->begin), scratch, sink);
    cut = match->end;
  }
  run(step + 1, piece.substr(cut), scratch, sink);
}

std::vector<PreTokenizer::Piece> PreTokenizer::find_pieces(const Step& step, std::string_view text,
                                                           RegexScratch& scratch) {
  std::vector<Piece> pieces;
  std::size_t cut = 0;
  MatchIterator matches(*step.pattern, text, scratch);
  while (const std::optional<Match> match = matches.next()) {
    if (match->begin != cut) pieces.push_back({{cut, match->begin}, step.invert});
    pieces.push_back({*match, !step.invert});
    cut = match->end;
  }
  if (cut != text.size()) pieces.push_back({{cut, text.size()}, step.invert});
  return pieces;
}

// What Hugging Face's SplitDelimiterBehavior makes of a list of matches and gaps. `previous` is whether the piece
// before (for MergedWithNext: after) was a match, which at the start is "no".
std::vector<Match> PreTokenizer::join(const std::vector<Piece>& pieces, Behavior behavior) {
  std::vector<Match> ranges;
  bool previous = false;
  const auto add = [&](const Piece& piece, bool extend) {
    if (extend && !ranges.empty()) {
      ranges.back().begin = std::min(ranges.back().begin, piece.range.begin);
      ranges.back().end = std::max(ranges.back().end, piece.range.end);
    } else {
      ranges.push_back(piece.range);
    }
    previous = piece.is_match;
  };
  switch (behavior) {
    case Behavior::kRemoved:
      for (const Piece& piece : pieces) {
        if (!piece.is_match) ranges.push_back(piece.range);
      }
      break;
    case Behavior::kIsolated:
      for (const Piece& piece : pieces) ranges.push_back(piece.range);
      break;
    case Behavior::kContiguous:
      for (const Piece& piece : pieces) add(piece, piece.is_match == previous);
      break;
    case Behavior::kMergedWithPrevious:
      for (const Piece& piece : pieces) add(piece, piece.is_match && !previous);
      break;
    case Behavior::kMergedWithNext:
      std::for_each(pieces.rbegin(), pieces.rend(),
                    [&](const Piece& piece) { add(piece, piece.is_match && !previous); });
      std::reverse(ranges.begin(), ranges.end());
      break;
  }
  return ranges;
}

}  // namespace zp::tokenizer
