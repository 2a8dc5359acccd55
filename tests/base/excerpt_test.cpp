// Are messages safe to show, whatever a user sent?
#include "zp/base/excerpt.h"

#include <gtest/gtest.h>

#include <string>

namespace zp {
namespace {

TEST(Excerpt, HidesControlCharactersAndInvalidBytes) {
  EXPECT_EQ(quote_excerpt("a\x1B[0m\n\x7Fz\xFF"),
            "'a?[0m?"
            "?z?'");
  EXPECT_EQ(quote_excerpt("caf\xC3\xA9"), "'caf\xC3\xA9'");
}

TEST(Excerpt, HidesWhatATerminalActsOn) {
  EXPECT_EQ(printable("a\u009Bb\u0080\u009F"), "a?b??");
  EXPECT_EQ(printable("\u2028\u202E\u2066\u2069"), "????");
  // Their neighbours are characters like others.
  const std::string plain = "\u00A0\u2027\u202F\u2065\u206A ~";
  EXPECT_EQ(printable(plain), plain);
  EXPECT_EQ(printable(""), "");
}

TEST(Excerpt, IsCutBetweenCharacters) {
  EXPECT_EQ(quote_excerpt(std::string(60, 'x')), "'" + std::string(60, 'x') + "'");
  EXPECT_EQ(quote_excerpt(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
  EXPECT_EQ(quote_excerpt(std::string(59, 'x') + "\xC3\xA9"), "'" + std::string(59, 'x') + "...'");
}

}  // namespace
}  // namespace zp
