// Can any bytes, taken as a tokenizer.json, do anything but load or throw zp::Error?
//
// A quarter of the inputs are put in place of one part of a good tokenizer, since random bytes seldom get past "vocab".
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "zp/base/error.h"
#include "zp/tokenizer/tokenizer.h"

namespace {

constexpr std::string_view kParts[] = {"normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens"};
constexpr std::string_view kModel = R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"Ġ":3},"merges":["a b"]})";
constexpr std::string_view kPreTokenizer = R"({"type":"ByteLevel","add_prefix_space":false})";

// A tokenizer with the input in place of the part that its first byte names.
std::string with_part(std::string_view input) {
  const std::string_view part = kParts[static_cast<unsigned char>(input[0]) % std::size(kParts)];
  std::string json = R"({"model":)" + std::string(kModel);
  if (part != "pre_tokenizer") json += R"(,"pre_tokenizer":)" + std::string(kPreTokenizer);
  return json + ",\"" + std::string(part) + "\":" + std::string(input.substr(1)) + "}";
}

void use(std::string_view json) {
  try {
    const auto tokenizer = zp::Tokenizer::parse(json);
    (void)tokenizer->decode(tokenizer->encode("ab  aé 12\n", {.add_special_tokens = false}));
  } catch (const zp::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (size > 1 && data[0] >= 0xC0) {
    use(with_part(input));
  } else {
    use(input);
  }
  return 0;
}
