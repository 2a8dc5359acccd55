// Does a task file mean what it says, and does every mistake in it get its line, key, value and limit?
#include "zp/task/task_spec.h"

#include <gmock/gmock.h>

#include "tests/task/task_test_util.h"

namespace zp {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

TaskSpec parse(const std::string& yaml) { return parse_task_spec(yaml, "t.yaml"); }

std::string problems(const std::string& yaml) {
  return message_of(ErrorCode::kInvalidArgument, [&yaml] { (void)parse(yaml); });
}

/// A valid choice task but for what `choices` and `rest` say.
std::string with_choices(const std::string& choices) {
  return "form: choice\ninstructions: Q\ninput: '{{t}}'\nchoices: " + choices + "\n";
}

TEST(TaskSpec, ReadsAChoiceTask) {
  const TaskSpec spec = parse(R"(# which tool
form: choice
instructions: |
  Pick a tool.
choices:
  - {value: GetWeather, description: asks about the weather}
  - "Other thing"
  - value: 3
input: "Message: {{text}}"
id_column: id
label_column: label
)");
  EXPECT_EQ(spec.form, TaskForm::kChoice);
  EXPECT_EQ(spec.instructions, "Pick a tool.");
  ASSERT_EQ(spec.choices.size(), 3u);
  EXPECT_EQ(spec.choices[0].value, "GetWeather");
  EXPECT_EQ(spec.choices[0].description, "asks about the weather");
  EXPECT_EQ(spec.choices[1].value, "Other thing");
  EXPECT_EQ(spec.choices[1].description, std::nullopt);
  EXPECT_EQ(spec.choices[2].kind, ScalarKind::kNumber);
  EXPECT_EQ(spec.id_column, "id");
  EXPECT_EQ(spec.label_column, "label");
}

TEST(TaskSpec, ReadsAPredicateWithoutOptionalKeys) {
  const TaskSpec spec = parse("form: predicate\ninstructions: Is it spam?\ninput: '{{t}}'\n");
  EXPECT_EQ(spec.form, TaskForm::kPredicate);
  ASSERT_EQ(spec.choices.size(), 2u);
  EXPECT_EQ(spec.choices[0].value, "true");
  EXPECT_EQ(spec.choices[1].kind, ScalarKind::kBool);
  EXPECT_FALSE(spec.id_column || spec.label_column);
}

TEST(TaskSpec, ReportsEveryProblemAtOnce) {
  EXPECT_EQ(problems("form: chioce\n"
                     "instruction: Q\n"
                     "input: 'no column'\n"
                     "id_column: [a]\n"),
            "The task file has 5 problems:\n"
            "  t.yaml:2: 'instruction': unknown key; the keys are form, instructions, choices, input, id_column, "
            "label_column\n"
            "  t.yaml:1: form: must be predicate or choice, but is 'chioce'\n"
            "  t.yaml:1: instructions: the key is missing, and required\n"
            "  t.yaml:3: input: it uses no column ('{{ name }}'), so every row would be the same question\n"
            "  t.yaml:4: id_column: must be text, but is a list");
}

TEST(TaskSpec, RefusesMissingBlankAndRepeatedKeys) {
  EXPECT_THAT(problems("{}"),
              AllOf(HasSubstr("form: the key is missing"), HasSubstr("instructions: the key is missing"),
                    HasSubstr("input: the key is missing")));
  EXPECT_EQ(problems("form: predicate\ninstructions: ' '\ninput: '{{t}}'\n"),
            "t.yaml:2: instructions: must not be blank, but is ' '");
  EXPECT_EQ(problems("form: predicate\ninstructions:\ninput: '{{t}}'\n"),
            "t.yaml:2: instructions: must be text, but is empty");
  EXPECT_EQ(problems("form: predicate\ninstructions: Q\ninput: '{{t}}'\nform: choice\n"),
            "t.yaml:4: form: the key is given twice; limit 1");
  EXPECT_THAT(problems("form: predicate\ninstructions: Q\ninput: '{{t}}'\n? [a]\n: b\n"),
              HasSubstr("a key must be a word"));
}

TEST(TaskSpec, ReportsABadTemplateAtTheInputsLine) {
  EXPECT_EQ(problems("form: predicate\ninstructions: Q\n\ninput: 'a {{ b'\n"),
            "t.yaml:4: input: the '{{' at byte 2 has no '}}'; a literal '{{' is written '{{{{'");
}

TEST(TaskSpec, APredicateHasNoChoicesAndAChoiceMust) {
  EXPECT_THAT(problems("form: predicate\ninstructions: Q\ninput: '{{t}}'\nchoices: [a, b]\n"),
              HasSubstr("t.yaml:4: choices: a predicate has none"));
  EXPECT_THAT(problems("form: choice\ninstructions: Q\ninput: '{{t}}'\n"), HasSubstr("choices: the key is missing"));
  EXPECT_THAT(problems(with_choices("{a: 1}")), HasSubstr("t.yaml:4: choices: must be a list, but is a mapping"));
}

TEST(TaskSpec, BoundsTheNumberOfChoices) {
  const auto list = [](int count) {
    std::string text = "[";
    for (int i = 0; i < count; ++i) text += "v" + std::to_string(i) + ",";
    return text + "]";
  };
  EXPECT_EQ(parse(with_choices(list(2))).choices.size(), 2u);
  EXPECT_EQ(parse(with_choices(list(255))).choices.size(), 255u);
  EXPECT_EQ(problems(with_choices(list(1))), "t.yaml:4: choices: there are 1; the limits are 2 to 255");
  EXPECT_EQ(problems(with_choices(list(256))), "t.yaml:4: choices: there are 256; the limits are 2 to 255");
}

TEST(TaskSpec, RefusesEqualChoicesAndNamesBoth) {
  EXPECT_EQ(problems(with_choices("\n  - a\n  - b\n  - a")),
            "t.yaml:7: choices[2]: 'a' is the same answer as 'a' on line 5; values must be distinct");
  EXPECT_THAT(problems(with_choices("[1, '1']")), HasSubstr("same answer"));
  EXPECT_THAT(problems(with_choices("[1, 1.0]")), HasSubstr("same answer"));
  EXPECT_THAT(problems(with_choices("[true, True]")), HasSubstr("same answer"));
  EXPECT_EQ(parse(with_choices("[a, A, 1, 1.5, 'True', true]")).choices.size(), 6u);
}

TEST(TaskSpec, RefusesBadChoices) {
  EXPECT_THAT(problems(with_choices("[a, [b]]")),
              HasSubstr("choices[1]: must be a value or {value, description}, but is a list"));
  EXPECT_THAT(problems(with_choices("[a, ~]")),
              HasSubstr("choices[1]: must be a value or {value, description}, but is empty"));
  EXPECT_THAT(problems(with_choices("[a, '']")), HasSubstr("choices[1]: must not be empty"));
  EXPECT_THAT(problems(with_choices("[a, ' b']")), HasSubstr("start or end with whitespace, but is ' b'"));
  EXPECT_THAT(problems(with_choices("[a, \"b\\nc\"]")), HasSubstr("choices[1]: must be one line"));
  EXPECT_THAT(problems(with_choices("[a, {description: x}]")), HasSubstr("choices[1].value: the key is missing"));
  EXPECT_THAT(problems(with_choices("[a, {value: [b]}]")),
              HasSubstr("choices[1].value: must be a scalar, but is a list"));
  EXPECT_THAT(problems(with_choices("[a, {value: b, descr: x}]")),
              HasSubstr("choices[1].'descr': unknown key; the keys are value, description"));
  EXPECT_THAT(problems(with_choices("[a, {value: b, description: }]")),
              HasSubstr("choices[1].description: must be text, but is empty"));
  EXPECT_THAT(problems(with_choices("[a, {value: b, description: \"x\\n\"}]")),
              HasSubstr("choices[1].description: must be one line"));
}

TEST(TaskSpec, RefusesWhatIsNotOneYamlMapping) {
  EXPECT_THAT(problems(""), HasSubstr("holds no YAML document; it must hold 1"));
  EXPECT_THAT(problems("form: predicate\n---\nform: choice\n"),
              HasSubstr("t.yaml:2: another YAML document starts here"));
  EXPECT_EQ(problems("[a]"), "t.yaml:1: the task must be a mapping of keys, but is a list");
  EXPECT_EQ(problems("hello"), "t.yaml:1: the task must be a mapping of keys, but is a scalar");
  EXPECT_THAT(problems("form: choice\n  bad: : x\n"), HasSubstr("t.yaml:2: the file is not readable as YAML"));
  EXPECT_THAT(problems("!a,\n"),
              HasSubstr("t.yaml:1: another YAML document starts here"));  // endless for YAML::LoadAll
  EXPECT_THAT(problems("a: *nothing"), HasSubstr("not readable as YAML"));
}

TEST(TaskSpec, RefusesBytesThatYamlDoesNotAllow) {
  EXPECT_EQ(problems("form: predicate\ninstructions: \xFF\n"), "t.yaml:2: byte 30 of the file, 0xff, is not UTF-8");
  EXPECT_THAT(problems("\xFF\xFE"
                       "f\0o\0"),
              HasSubstr("not UTF-8"));
  // yaml-cpp would take 0x04 for the end of the file and lose what follows.
  EXPECT_THAT(problems("form: predicate\ninstructions: Q\ninput: '{{t}}'\n\x04junk: 1\n"),
              HasSubstr("t.yaml:4: byte 47 of the file is the control character 0x04"));
  EXPECT_THAT(problems(std::string("a\0b", 3)), HasSubstr("control character 0x00"));
}

TEST(TaskSpec, BoundsSizeAndDepth) {
  const std::string valid = "{form: predicate, instructions: Q, input: '{{t}}'}\n#";
  EXPECT_NO_THROW(parse(valid + std::string(kMaxTaskBytes - valid.size(), 'x')));
  EXPECT_EQ(problems(valid + std::string(kMaxTaskBytes - valid.size() + 1, 'x')),
            "t.yaml:1: the file has more bytes than the limit of 1048576");
  EXPECT_THAT(problems("a: " + std::string(100000, '[')),
              HasSubstr("t.yaml:1: the file nests values deeper than the limit of 5"));
  std::string nested;
  for (int i = 0; i < 700; ++i) nested += std::string(i, ' ') + "a:\n";
  EXPECT_THAT(problems(nested), HasSubstr("nests values deeper"));
}

TEST(TaskSpec, ShowsAtMostFiftyProblems) {
  std::string yaml;
  for (int i = 0; i < 100; ++i) yaml += "k" + std::to_string(i) + ": 1\n";
  const std::string text = problems(yaml);
  EXPECT_THAT(text, AllOf(HasSubstr("has 103 problems"), HasSubstr("'k49'"), HasSubstr("and 53 more")));
  EXPECT_EQ(text.find("'k50'"), std::string::npos);
}

TEST(TaskSpec, LoadsAFileAndNamesOneThatIsNotThere) {
  const test::TempFolder folder;
  test::write_file(folder.file("task.yaml"), "{form: predicate, instructions: Q, input: '{{t}}'}");
  EXPECT_EQ(load_task_spec(folder.file("task.yaml")).instructions, "Q");
  const auto load = [&folder] { (void)load_task_spec(folder.file("none.yaml")); };
  EXPECT_THAT(message_of(ErrorCode::kNotFound, load), HasSubstr("none.yaml: No such file"));
  test::write_file(folder.file("large.yaml"), std::string(kMaxTaskBytes + 100, '#'));
  const auto load_large = [&folder] { (void)load_task_spec(folder.file("large.yaml")); };
  EXPECT_THAT(message_of(ErrorCode::kInvalidArgument, load_large), HasSubstr("large.yaml:1: the file has more bytes"));
}

TEST(FindChoice, PredicateLabelsAreSixWordsInAnyCase) {
  const TaskSpec spec = parse("form: predicate\ninstructions: Is it spam?\ninput: '{{t}}'\n");
  for (const char* text : {"true", "True", "YES", " 1\n"}) EXPECT_EQ(find_choice(spec, text), 0u) << text;
  for (const char* text : {"false", "No", "0"}) EXPECT_EQ(find_choice(spec, text), 1u) << text;
  for (const char* text : {"", "y", "2", "01", "1.0"}) EXPECT_EQ(find_choice(spec, text), std::nullopt) << text;
}

TEST(FindChoice, ChoiceLabelsAreValuesOrEqualBoolsAndNumbers) {
  const TaskSpec spec = parse(with_choices("[a, A, 1, '2', True]"));
  EXPECT_EQ(find_choice(spec, "A"), 1u);
  EXPECT_EQ(find_choice(spec, "1.0"), 2u);
  EXPECT_EQ(find_choice(spec, "1e0"), 2u);
  EXPECT_EQ(find_choice(spec, "2"), 3u);
  EXPECT_EQ(find_choice(spec, "2.0"), std::nullopt);  // '2' is a string
  EXPECT_EQ(find_choice(spec, "true"), 4u);
  EXPECT_EQ(find_choice(spec, "b"), std::nullopt);
}

}  // namespace
}  // namespace zp
