// Are JSON numbers those of RFC 8259, and strings those of Python's json module?
#include "zp/task/json_text.h"

#include <gtest/gtest.h>

namespace zp {
namespace {

TEST(JsonText, KnowsNumbersFromOtherText) {
  for (const char* text : {"0", "-0", "12", "-1.50", "1e5", "1E+05", "0.1e-2"})
    EXPECT_TRUE(is_json_number(text)) << text;
  for (const char* text : {"", "-", "01", "+1", ".5", "1.", "1e", "1e+", "0x1", "1 ", " 1", "NaN", "1.5a", "--1"}) {
    EXPECT_FALSE(is_json_number(text)) << text;
  }
}

TEST(JsonText, EscapesAsPythonDoes) {
  // python3 -c 'import json; print(json.dumps("a\"\\/\b\f\n\r\t\x01\x1f\x7fé€😀", ensure_ascii=False))'
  std::string out = "x";
  append_json_string("a\"\\/\b\f\n\r\t\x01\x1f\x7f\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", out);
  EXPECT_EQ(out, "x\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7F\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
}

}  // namespace
}  // namespace zp
