// Are labels tried in order, skipped only where they may be, and refused by name?
#include "zp/task/label_set.h"

#include <gmock/gmock.h>

#include "tests/task/task_test_util.h"

namespace zp {
namespace {

using test::message_of;
using ::testing::HasSubstr;

TaskSpec choices(std::size_t count) {
  TaskSpec spec;
  for (std::size_t i = 0; i < count; ++i)
    spec.choices.push_back({.value = std::to_string(i), .kind = {}, .description = {}});
  return spec;
}

bool accept_all(std::string_view) { return true; }

TEST(LabelSet, RunsFromAToZThenLowerCaseThenPairs) {
  const std::vector<std::string> labels = choose_labels(choices(255), accept_all);
  ASSERT_EQ(labels.size(), 255u);
  EXPECT_EQ(labels[0], " A");
  EXPECT_EQ(labels[25], " Z");
  EXPECT_EQ(labels[26], " a");
  EXPECT_EQ(labels[51], " z");
  EXPECT_EQ(labels[52], " AA");
  EXPECT_EQ(labels[77], " AZ");
  EXPECT_EQ(labels[78], " BA");
  EXPECT_EQ(labels[254], " HU");
}

TEST(LabelSet, AsksInOrderAndOnlyAsOftenAsItMust) {
  std::vector<std::string> asked;
  const auto labels = choose_labels(choices(3), [&](std::string_view label) {
    asked.emplace_back(label);
    return true;
  });
  EXPECT_THAT(asked, testing::ElementsAre(" A", " B", " C"));
  EXPECT_EQ(labels, asked);
}

TEST(LabelSet, SkipsFailingLabelsBeyondZ) {
  const auto labels = choose_labels(choices(28), [](std::string_view label) { return label != " a" && label != " c"; });
  EXPECT_EQ(labels[26], " b");
  EXPECT_EQ(labels[27], " d");
}

TEST(LabelSet, RefusesAFailingLabelUpToZByName) {
  const auto choose = [] { (void)choose_labels(choices(26), [](std::string_view label) { return label != " Z"; }); };
  EXPECT_THAT(message_of(ErrorCode::kInvalidArgument, choose), HasSubstr("the label ' Z' is not one distinct token"));
}

TEST(LabelSet, NamesBothCountsIfThereAreTooFew) {
  const auto choose = [] {
    (void)choose_labels(choices(53), [](std::string_view label) { return label.size() == 2; });
  };
  EXPECT_EQ(message_of(ErrorCode::kInvalidArgument, choose),
            "the task has 53 choices, but only 52 of the 728 labels are one distinct token of this model's tokenizer");
}

TEST(LabelSet, APredicateHasYesAndNoAndMayMissNeither) {
  TaskSpec spec = choices(2);
  spec.form = TaskForm::kPredicate;
  EXPECT_THAT(choose_labels(spec, accept_all), testing::ElementsAre(" Yes", " No"));
  const auto choose = [&spec] { (void)choose_labels(spec, [](std::string_view label) { return label != " No"; }); };
  EXPECT_THAT(message_of(ErrorCode::kInvalidArgument, choose), HasSubstr("the label ' No' is not"));
}

}  // namespace
}  // namespace zp
