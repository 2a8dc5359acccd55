// Are bytes written as GPT-2 writes them?
#include "zp/tokenizer/byte_alphabet.h"

#include <gtest/gtest.h>

#include <string>

namespace zp::tokenizer {
namespace {

TEST(ByteAlphabet, WritesBytesAsGpt2Does) {
  const ByteAlphabet alphabet;
  EXPECT_EQ(alphabet.to_characters(" the\n"), "ĠtheĊ");
  EXPECT_EQ(alphabet.to_characters("\x7F\x80\xA0\xAD\xFF"), "ġĢłŃÿ");
}

TEST(ByteAlphabet, EveryByteComesBack) {
  const ByteAlphabet alphabet;
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(alphabet.to_bytes(alphabet.to_characters(bytes)), bytes);
}

TEST(ByteAlphabet, RefusesCharactersThatStandForNoByte) {
  const ByteAlphabet alphabet;
  for (const char* text : {"a b", "a\n", "\u00AD", "\u0144", "日本"}) {
    EXPECT_EQ(alphabet.to_bytes(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace zp::tokenizer
