// Are contexts the exact bytes that training renders, and rows that cannot be rendered errors of their own?
#include "zp/task/prompt.h"

#include <gmock/gmock.h>

#include "tests/task/task_test_util.h"
#include "zp/task/label_set.h"

namespace zp {
namespace {

PromptRenderer renderer(
    const std::string& yaml, const LabelCheck& check = [](std::string_view) { return true; }) {
  TaskSpec spec = parse_task_spec(yaml, "task.yaml");
  std::vector<std::string> labels = choose_labels(spec, check);
  return {std::move(spec), std::move(labels)};
}

Row row(std::vector<std::pair<std::string, std::string>> columns) {
  return {.index = 4, .line = 6, .columns = std::move(columns), .error = {}};
}

constexpr const char* kChoice = R"(form: choice
instructions: "Which tool?  \n"
choices:
  - {value: GetWeather, description: asks about the weather}
  - Other
  - value: 3
input: "Message: {{text}} "
id_column: id
label_column: label
)";

constexpr const char* kPredicate = R"(form: predicate
instructions: |
  Is this spam?
  Think of links.
input: |
  Subject: {{ subject }}

  {{ body }}
)";

TEST(Prompt, ChoiceIsTheseBytes) {
  const auto prepared = renderer(kChoice).prepare(row({{"text", "Rain?\n"}, {"id", "x7"}, {"label", "Other"}}));
  ASSERT_FALSE(prepared.error);
  EXPECT_EQ(prepared.context,
            "Which tool?\n"
            "Options:\n"
            "A. GetWeather: asks about the weather\n"
            "B. Other\n"
            "C. 3\n"
            "Reply with the letter of one option.\n"
            "\n"
            "Message: Rain?\n"
            "Answer:");
}

TEST(Prompt, PredicateIsTheseBytes) {
  const auto prepared = renderer(kPredicate).prepare(row({{"subject", " Hi"}, {"body", "Buy\n\n \t"}}));
  ASSERT_FALSE(prepared.error);
  EXPECT_EQ(prepared.context,
            "Is this spam?\n"
            "Think of links.\n"
            "Reply with Yes or No.\n"
            "\n"
            "Subject:  Hi\n"
            "\n"
            "Buy\n"
            "Answer:");
}

TEST(Prompt, AnEmptyInputStillHasItsLine) {
  const auto prepared = renderer("{form: predicate, instructions: Q, input: '{{t}}'}").prepare(row({{"t", " \n"}}));
  EXPECT_EQ(prepared.context, "Q\nReply with Yes or No.\n\n\nAnswer:");
}

TEST(Prompt, OptionsWearTheLabelsThatWereChosen) {
  std::string yaml = "form: choice\ninstructions: Q\ninput: '{{t}}'\nchoices:\n";
  for (int i = 0; i < 28; ++i) yaml += "  - v" + std::to_string(i) + "\n";
  const auto skip_a = [](std::string_view label) { return label != " a"; };
  const auto prepared = renderer(yaml, skip_a).prepare(row({{"t", "x"}}));
  EXPECT_THAT(prepared.context, testing::HasSubstr("\nZ. v25\nb. v26\nc. v27\nReply"));
}

TEST(Prompt, AnIdIsTheColumnsTextOrTheIndex) {
  EXPECT_EQ(renderer(kChoice).prepare(row({{"text", ""}, {"id", "7"}, {"label", ""}})).id, RowId("7"));
  EXPECT_EQ(renderer(kPredicate).prepare(row({{"subject", ""}, {"body", ""}})).id, RowId(int64_t{4}));
}

TEST(Prompt, ALabelIsAChoicesIndexOrNothingIfEmpty) {
  const PromptRenderer r = renderer(kChoice);
  const auto label = [&r](const char* text) {
    return r.prepare(row({{"text", ""}, {"id", ""}, {"label", text}})).label;
  };
  EXPECT_EQ(label(" Other\n"), 1u);
  EXPECT_EQ(label("3.0"), 2u);
  EXPECT_EQ(label(" "), std::nullopt);
  EXPECT_EQ(r.prepare(row({{"text", ""}, {"id", "1"}})).error, std::nullopt)
      << "a row without the column is unlabelled";
}

TEST(Prompt, ALabelThatIsNoChoiceIsTheRowsError) {
  const auto prepared = renderer(kChoice).prepare(row({{"text", ""}, {"id", "x7"}, {"label", "other"}}));
  ASSERT_TRUE(prepared.error);
  EXPECT_EQ(prepared.error->message,
            "line 6: the label in column 'label' is 'other', but must be one of the 3 choices ('GetWeather', 'Other', "
            "'3'), or empty");
  EXPECT_EQ(prepared.id, RowId("x7"));
  EXPECT_EQ(prepared.context, "");
}

TEST(Prompt, AMissingColumnIsTheRowsErrorAndNamesTheRowsColumns) {
  const PromptRenderer r = renderer(kChoice);
  const auto message = [&r](std::vector<std::pair<std::string, std::string>> columns) {
    const auto prepared = r.prepare(row(std::move(columns)));
    EXPECT_EQ(prepared.error.value().code, ErrorCode::kNotFound);
    EXPECT_EQ(prepared.label, std::nullopt);
    return prepared.error.value().message;
  };
  EXPECT_EQ(message({{"text", ""}, {"label", ""}}),
            "line 6: id_column is 'id', but the row's columns are: 'text', 'label'");
  EXPECT_EQ(message({{"id", ""}}), "line 6: the input template uses 'text', but the row's columns are: 'id'");
  EXPECT_EQ(message({{"id", ""}, {"label", "Other"}}),
            "line 6: the input template uses 'text', but the row's columns are: 'id', 'label'");
}

TEST(Prompt, WhatIsNullIsMissing) {
  const auto prepare = [](std::vector<std::pair<std::string, std::string>> columns, const char* null) {
    Row with_null = row(std::move(columns));
    with_null.nulls = {null};
    return renderer(kChoice).prepare(with_null);
  };
  const auto text = prepare({{"id", "x7"}}, "text");
  ASSERT_TRUE(text.error);
  EXPECT_THAT(text.error->message, testing::HasSubstr("uses 'text', null in this row"));
  EXPECT_EQ(text.id, RowId("x7"));
  const auto id = prepare({{"text", ""}}, "id");
  ASSERT_TRUE(id.error);
  EXPECT_EQ(id.error->message, "line 6: id_column is 'id', but the row's columns are: 'text', 'id' (null)");
  EXPECT_EQ(id.id, RowId(int64_t{4}));
  const auto label = prepare({{"text", ""}, {"id", "x7"}}, "label");
  EXPECT_FALSE(label.error);
  EXPECT_EQ(label.label, std::nullopt);
}

TEST(Prompt, ARowsOwnErrorIsKept) {
  Row bad = row({});
  bad.error = RowError{.code = ErrorCode::kInvalidArgument, .message = "broken"};
  const auto prepared = renderer(kChoice).prepare(bad);
  EXPECT_EQ(prepared.error.value().message, "broken");
  EXPECT_EQ(prepared.id, RowId(int64_t{4}));
}

}  // namespace
}  // namespace zp
