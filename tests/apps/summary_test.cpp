// What a summary says of runs that cannot be had from the outside: no option makes a device fail.
#include "apps/zeroprefill/summary.h"

#include <gtest/gtest.h>

namespace zp::app {
namespace {

TEST(Summary, CountsRowsThatWereLostForNoFaultOfTheirs) {
  TaskMetrics metrics(2);
  metrics.add_answer(0, std::nullopt);
  metrics.add_error(ErrorCode::kInvalidArgument);
  for (int i = 0; i < 3; ++i) metrics.add_error(ErrorCode::kDevice);
  const nlohmann::ordered_json json = to_json({.metrics = metrics.summarize(), .stats = {}});
  EXPECT_EQ(json.at("items"), 5);
  EXPECT_EQ(json.at("errors"), 4);
  EXPECT_EQ(json.at("lost"), 3);
  EXPECT_EQ(json.at("errors_by_code"), (nlohmann::ordered_json{{"invalid_argument", 1}, {"device", 3}}));
}

}  // namespace
}  // namespace zp::app
