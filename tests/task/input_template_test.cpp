// Do templates say what their documentation says?
#include "zp/task/input_template.h"

#include <gmock/gmock.h>

#include "tests/task/task_test_util.h"

namespace zp {
namespace {

using test::message_of;
using ::testing::HasSubstr;

std::string render(const std::string& text, const Row& row) {
  std::string out;
  const auto error = InputTemplate::parse(text).render(row, out);
  return error ? "error: " + error->message : out;
}

const Row kRow{.index = 0, .line = 7, .columns = {{"text", "hi"}, {"a b", "{{text}}"}}, .error = {}};

TEST(InputTemplate, ReplacesColumnsWithOrWithoutSpaces) {
  EXPECT_EQ(render("M: {{text}}/{{ text }}!", kRow), "M: hi/hi!");
  EXPECT_EQ(render("{{\ttext\n}}", kRow), "hi");
}

TEST(InputTemplate, NeverLooksIntoWhatAColumnHolds) { EXPECT_EQ(render("{{a b}}", kRow), "{{text}}"); }

TEST(InputTemplate, FourBracesAreTwo) {
  EXPECT_EQ(render("{{{{text}} {{text}}", kRow), "{{text}} hi");
  EXPECT_EQ(render("{{{{{{text}}", kRow), "{{hi");
}

TEST(InputTemplate, SingleBracesAndClosingOnesAreThemselves) {
  EXPECT_EQ(render("{a} }} {{text}}", kRow), "{a} }} hi");
}

TEST(InputTemplate, RefusesAPlaceThatIsNotClosed) {
  const auto parse = [] { (void)InputTemplate::parse("x {{ text"); };
  EXPECT_EQ(message_of(ErrorCode::kInvalidArgument, parse),
            "the '{{' at byte 2 has no '}}'; a literal '{{' is written '{{{{'");
}

TEST(InputTemplate, RefusesBadNamesAndNoColumnAtAll) {
  const auto parse = [](const char* text) {
    return message_of(ErrorCode::kInvalidArgument, [text] { (void)InputTemplate::parse(text); });
  };
  EXPECT_EQ(parse("{{ }}"), "the '{{ }}' at byte 0 names no column");
  EXPECT_THAT(parse("{{{x}}"), HasSubstr("names '{x'; a name holds no brace"));
  EXPECT_THAT(parse("{{x\ny}}"), HasSubstr("no line break"));
  EXPECT_THAT(parse("always the same"), HasSubstr("uses no column"));
}

TEST(InputTemplate, NamesEveryMissingColumnAndThoseOfTheRow) {
  std::string out = "before";
  const auto error = InputTemplate::parse("{{text}} {{x}} {{y}}").render(kRow, out);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::kNotFound);
  EXPECT_EQ(error->message, "line 7: the input template uses 'x', 'y', but the row's columns are: 'text', 'a b'");
  EXPECT_EQ(out, "before");
}

TEST(InputTemplate, ANullIsNoEmptyText) {
  const Row row{.index = 0, .line = 7, .columns = {{"text", ""}}, .nulls = {"a", "b"}, .error = {}};
  EXPECT_EQ(render("<{{text}}>", row), "<>");
  EXPECT_EQ(render("{{text}} {{b}} {{a}}", row),
            "error: line 7: the input template uses 'b', 'a', null in this row; a value must be a string (\"\" for no "
            "text), a number, true, false, an array or an object");
  EXPECT_EQ(render("{{x}} {{b}}", row),
            "error: line 7: the input template uses 'x', but the row's columns are: 'text', 'a' (null), 'b' (null)");
}

TEST(InputTemplate, ListsAtMostTwentyColumns) {
  Row row;
  for (int i = 0; i < 23; ++i) row.columns.emplace_back(fmt::format("c{}", i), "");
  EXPECT_THAT(render("{{x}}", row), HasSubstr("'c19' and 3 more"));
  row.nulls = {"n"};
  EXPECT_THAT(render("{{x}}", row), HasSubstr("'c19' and 4 more"));
  EXPECT_THAT(render("{{x}}", Row{}), HasSubstr("columns are: none"));
}

}  // namespace
}  // namespace zp
