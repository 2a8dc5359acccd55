// What happens to a text before it is split: NFC and its relatives, lower case, prepending, replacing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zp/tokenizer/json_view.h"
#include "zp/tokenizer/regex.h"

namespace zp::tokenizer {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// The text in a normal form of Unicode 9, the version that Hugging Face tokenizers know. Requires valid UTF-8.
[[nodiscard]] std::string to_normal_form(std::string_view text, NormalForm form);

/// The "normalizer" of a tokenizer.json: a list of steps, in order. Immutable, thread-safe.
class Normalizer final {
 public:
  /// The normalizer that changes nothing.
  Normalizer() = default;

  /// Throws kUnsupported for types and options that are not implemented.
  [[nodiscard]] static Normalizer parse(const JsonView& json);

  /// The normalized text: either `text` itself or a view of `buffer`. Requires valid UTF-8.
  [[nodiscard]] std::string_view apply(std::string_view text, std::string& buffer, RegexScratch& scratch) const;

 private:
  struct Lowercase {};
  struct Prepend {
    std::string prefix;
  };
  struct Replace {
    std::unique_ptr<const Regex> pattern;
    std::string content;
  };
  using Step = std::variant<NormalForm, Lowercase, Prepend, Replace>;

  void add(const JsonView& json, int depth);
  [[nodiscard]] static std::string run(const Step& step, std::string_view text, RegexScratch& scratch);

  std::vector<Step> steps_;
};

}  // namespace zp::tokenizer
