// Where is a text cut into words that merges never cross?
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zp/tokenizer/json_view.h"
#include "zp/tokenizer/regex.h"

namespace zp::tokenizer {

/// The "pattern" of a Split or a Replace: {"Regex": ...} or {"String": ...}.
[[nodiscard]] std::unique_ptr<const Regex> parse_pattern(const JsonView& json);

/// Receives the words of a text in order; a word is valid only during the call, and never empty.
class WordSink {
 public:
  virtual ~WordSink() = default;
  virtual void on_word(std::string_view word) = 0;
};

/// The "pre_tokenizer" of a tokenizer.json: a list of steps that each cut every piece further. Immutable, thread-safe.
/// Invariant: the last step, and no other, is ByteLevel, so that words are bytes of the text.
class PreTokenizer final {
 public:
  /// Throws kUnsupported for types and options that are not implemented.
  [[nodiscard]] static PreTokenizer parse(const JsonView& json);

  /// Cuts a text (valid UTF-8) and hands its words to `sink`.
  void split(std::string_view text, RegexScratch& scratch, WordSink& sink) const;

 private:
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Step {
    std::unique_ptr<const Regex> pattern;  // null: the step does not cut
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;
    bool add_prefix_space = false;
  };
  struct Piece {
    Match range;
    bool is_match = false;
  };

  void add(const JsonView& json, int depth);
  static Behavior parse_behavior(const JsonView& json);
  void run(std::size_t step, std::string_view piece, RegexScratch& scratch, WordSink& sink) const;
  void cut_isolated(std::size_t step, std::string_view piece, RegexScratch& scratch, WordSink& sink) const;
  static std::vector<Piece> find_pieces(const Step& step, std::string_view text, RegexScratch& scratch);
  static std::vector<Match> join(const std::vector<Piece>& pieces, Behavior behavior);

  std::vector<Step> steps_;
  bool has_byte_level_ = false;
};

}  // namespace zp::tokenizer
