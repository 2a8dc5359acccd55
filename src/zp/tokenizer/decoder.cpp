// How do tokens become text again?
#include "zp/tokenizer/decoder.h"

#include <optional>
#include <string_view>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/tokenizer/utf8.h"

namespace zp::tokenizer {
namespace {

constexpr int kSequenceDepthMax = 8;

std::string join(const std::vector<std::string>& strings, std::string_view separator) {
  std::string joined;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    if (i > 0) joined.append(separator);
    joined.append(strings[i]);
  }
  return joined;
}

// A token that holds a character outside the alphabet (an added one, in Chinese say) stands for itself.
std::string bytes_of(const std::vector<std::string>& tokens, const ByteAlphabet& alphabet) {
  std::string bytes;
  for (const std::string& token : tokens) {
    const std::optional<std::string> decoded = alphabet.to_bytes(token);
    bytes.append(decoded ? *decoded : token);
  }
  return bytes;
}

}  // namespace

Decoder Decoder::parse(const JsonView& json) {
  Decoder decoder;
  decoder.present_ = true;
  decoder.add(json, 0);
  return decoder;
}

void Decoder::add(const JsonView& json, int depth) {
  if (depth > kSequenceDepthMax) fail(ErrorCode::kUnsupported, "{} is nested too deeply", json.where());
  const std::string_view type = json.at("type").string();
  if (type == "ByteLevel") {
    json.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});  // none of them changes decoding
    steps_.push_back(Step::kByteLevel);
  } else if (type == "Fuse") {
    json.allow_only({"type"});
    steps_.push_back(Step::kFuse);
  } else if (type == "Sequence") {
    json.allow_only({"type", "decoders"});
    for (const JsonView& inner : json.at("decoders").elements()) add(inner, depth + 1);
  } else {
    fail(ErrorCode::kUnsupported, "{} is of type {}, which is not supported", json.where(), quote_excerpt(type));
  }
}

std::string Decoder::apply(std::vector<std::string> tokens, const ByteAlphabet& alphabet) const {
  for (const Step step : steps_) {
    std::string text = step == Step::kFuse ? join(tokens, "") : repair_utf8(bytes_of(tokens, alphabet));
    tokens.assign(1, text);
  }
  return join(tokens, present_ ? "" : " ");
}

}  // namespace zp::tokenizer
