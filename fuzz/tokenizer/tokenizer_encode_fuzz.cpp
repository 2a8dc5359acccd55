// Do any bytes either get refused for what they are, or come back from decoding as they were (once normalized)?
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zp/base/check.h"
#include "zp/base/error.h"
#include "zp/base/utf8.h"
#include "zp/tokenizer/normal_form.h"
#include "zp/tokenizer/tokenizer.h"
#include "zp/tokenizer/utf8.h"

namespace {

struct Subject {
  std::unique_ptr<zp::Tokenizer> qwen;
  std::unique_ptr<zp::Tokenizer> gpt2;
  zp::tokenizer::NormalFormer nfc{zp::tokenizer::NormalForm::kNfc};
};

const Subject& subject() {
  static const Subject loaded = [] {
    const std::filesystem::path folder = std::filesystem::path(ZP_SOURCE_DIR) / "tests/data/tokenizer";
    return Subject{zp::Tokenizer::load(folder / "qwen_small"), zp::Tokenizer::load(folder / "gpt2_small")};
  }();
  return loaded;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool valid = !zp::find_invalid_utf8(text).has_value();
  std::vector<int32_t> ids;
  try {
    ids = subject().qwen->encode(text, {.parse_special = false});
  } catch (const zp::Error& error) {
    ZP_CHECK(!valid && error.code() == zp::ErrorCode::kInvalidArgument, "refused: {}", error.what());
    (void)zp::tokenizer::repair_utf8(text);
    return 0;
  }
  ZP_CHECK(valid, "{} bytes that are not UTF-8 were encoded", size);
  // With parse_special off no special token may appear. Ordinary added tokens cut the text before it is normalized, so
  // that what they keep apart ("<think>" and a stroke) is normalized here once more.
  const zp::tokenizer::NormalFormer& nfc = subject().nfc;
  ZP_CHECK(nfc.apply(subject().qwen->decode(ids)) == nfc.apply(text), "the text did not come back");
  ZP_CHECK(nfc.apply(subject().qwen->decode(ids, true)) == nfc.apply(text), "a special token appeared");
  (void)subject().gpt2->decode(subject().gpt2->encode(text, {.add_special_tokens = true}), true);
  return 0;
}
