// How do tokens become text again?
#pragma once

#include <string>
#include <vector>

#include "zp/tokenizer/byte_alphabet.h"
#include "zp/tokenizer/json_view.h"

namespace zp::tokenizer {

/// The "decoder" of a tokenizer.json: steps that each turn a list of strings into another. Immutable, thread-safe.
class Decoder final {
 public:
  /// Joins tokens with spaces, as Hugging Face does without a decoder.
  Decoder() = default;

  /// Throws kUnsupported for types that are not implemented.
  [[nodiscard]] static Decoder parse(const JsonView& json);

  /// The text of some tokens; always valid UTF-8, given valid UTF-8.
  [[nodiscard]] std::string apply(std::vector<std::string> tokens, const ByteAlphabet& alphabet) const;

 private:
  enum class Step { kByteLevel, kFuse };

  void add(const JsonView& json, int depth);

  std::vector<Step> steps_;
  bool present_ = false;
};

}  // namespace zp::tokenizer
