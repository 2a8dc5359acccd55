// What happens to a text before it is split: NFC and its relatives, lower case, prepending, replacing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zp/tokenizer/json_view.h"
#include "zp/tokenizer/normal_form.h"
#include "zp/tokenizer/regex.h"

namespace zp::tokenizer {

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
  using Step = std::variant<NormalFormer, Lowercase, Prepend, Replace>;

  void add(const JsonView& json, int depth);
  [[nodiscard]] static bool changes_nothing(const Step& step, std::string_view text);
  [[nodiscard]] static std::string run(const Step& step, std::string_view text, RegexScratch& scratch);

  std::vector<Step> steps_;
};

}  // namespace zp::tokenizer
