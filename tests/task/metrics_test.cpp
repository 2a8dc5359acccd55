// Are the scores those that scikit-learn and SciPy give?
#include "zp/task/metrics.h"

#include <gtest/gtest.h>

namespace zp {
namespace {

TaskMetricsSummary score(std::size_t choice_count, const std::vector<std::size_t>& labels,
                         const std::vector<std::size_t>& answers) {
  TaskMetrics metrics(choice_count);
  for (std::size_t i = 0; i < labels.size(); ++i) metrics.add_answer(answers[i], labels[i]);
  return metrics.summarize();
}

// Expected values, scikit-learn 1.9.1:
//   from sklearn.metrics import f1_score, accuracy_score
//   y = [0,0,0,0,0,1,1,1,2,2,4,4]; p = [0,0,1,0,3,1,1,0,2,0,4,2]
//   print(f1_score(y, p, average="macro"), accuracy_score(y, p))   # 0.48666666666666664 0.5833333333333334
// Class 3 is only answered, class 5 neither answered nor labelled.
TEST(TaskMetrics, EqualsScikitLearnWithClassesMissing) {
  const auto s = score(6, {0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 4, 4}, {0, 0, 1, 0, 3, 1, 1, 0, 2, 0, 4, 2});
  EXPECT_DOUBLE_EQ(s.macro_f1.value(), 0.48666666666666664);
  EXPECT_DOUBLE_EQ(s.accuracy.value(), 0.5833333333333334);
  EXPECT_DOUBLE_EQ(s.majority_accuracy.value(), 5.0 / 12);
  EXPECT_EQ(s.correct, 7);
}

//   y = [1,1,1,0,0,1,0,1]; p = [1,0,1,0,1,1,0,1]   # 0.7333333333333334 0.75
TEST(TaskMetrics, EqualsScikitLearnOnTwoClasses) {
  const auto s = score(2, {1, 1, 1, 0, 0, 1, 0, 1}, {1, 0, 1, 0, 1, 1, 0, 1});
  EXPECT_DOUBLE_EQ(s.macro_f1.value(), 0.7333333333333334);
  EXPECT_DOUBLE_EQ(s.accuracy.value(), 0.75);
  EXPECT_DOUBLE_EQ(s.majority_accuracy.value(), 0.625);
}

TEST(TaskMetrics, CountsUnlabelledAndFailedRowsApart) {
  TaskMetrics metrics(2);
  metrics.add_answer(0, 0);
  metrics.add_answer(1, std::nullopt);
  metrics.add_error(ErrorCode::kNotFound);
  metrics.add_error(ErrorCode::kNotFound);
  metrics.add_error(ErrorCode::kCorrupt);
  const auto s = metrics.summarize();
  EXPECT_EQ(s.rows, 5);
  EXPECT_EQ(s.answered, 2);
  EXPECT_EQ(s.scored, 1);
  EXPECT_EQ(s.failed, 3);
  EXPECT_EQ(s.failed_by_code.at(ErrorCode::kNotFound), 2);
  EXPECT_EQ(s.failed_by_code.at(ErrorCode::kCorrupt), 1);
  EXPECT_DOUBLE_EQ(s.accuracy.value(), 1.0);
  EXPECT_DOUBLE_EQ(s.macro_f1.value(), 1.0);
}

TEST(TaskMetrics, CountsRowsLostToTheMachineAmongTheFailed) {
  TaskMetrics metrics(2);
  metrics.add_error(ErrorCode::kInvalidArgument);
  metrics.add_error(ErrorCode::kCorrupt);
  EXPECT_EQ(metrics.summarize().lost, 0);
  for (const ErrorCode code : {ErrorCode::kDevice, ErrorCode::kOutOfMemory, ErrorCode::kCancelled})
    metrics.add_error(code);
  EXPECT_EQ(metrics.summarize().lost, 3);
  EXPECT_EQ(metrics.summarize().failed, 5);
}

TEST(TaskMetrics, HasNoScoresWithoutLabels) {
  TaskMetrics metrics(2);
  metrics.add_answer(1, std::nullopt);
  const auto s = metrics.summarize();
  EXPECT_FALSE(s.accuracy || s.macro_f1 || s.majority_accuracy);
  EXPECT_EQ(s.accuracy_95.low, 0);
  EXPECT_EQ(s.accuracy_95.high, 1);
}

// Expected values, SciPy: scipy.stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
TEST(WilsonInterval, EqualsSciPy) {
  const auto expect = [](int64_t k, int64_t n, double low, double high) {
    const Interval interval = wilson_interval_95(k, n);
    EXPECT_NEAR(interval.low, low, 1e-12) << k << "/" << n;
    EXPECT_NEAR(interval.high, high, 1e-12) << k << "/" << n;
  };
  expect(8, 12, 0.39062208887279953, 0.8618799089087767);
  expect(0, 10, 0.0, 0.27753279986288926);
  expect(10, 10, 0.7224672001371109, 1.0);
  expect(81, 263, 0.2552885198782742, 0.36620957698280004);
  expect(5, 9, 0.2666512934954931, 0.8112214789023354);
}

TEST(WilsonInterval, NeverLeavesZeroToOne) {
  for (int64_t n = 1; n < 300; ++n) {
    EXPECT_EQ(wilson_interval_95(0, n).low, 0.0);
    EXPECT_EQ(wilson_interval_95(n, n).high, 1.0);
  }
}

}  // namespace
}  // namespace zp
