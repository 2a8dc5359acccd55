// Traces are what trace viewers read.
#include "zp/engine/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace zp {
namespace {

TEST(Trace, HasAProcessForEachRankAndALaneForEachChannel) {
  const std::vector<std::vector<Span>> ranks = {
      {{Lane::kCompute, "attention 0", 5'000'000, 7'000'000}, {Lane::kGather, "gather 1", 4'000'000, 6'500'000}},
      {{Lane::kHost, "host 2", 4'500'000, 4'600'000}}};
  const auto json = nlohmann::json::parse(format_trace(ranks));
  std::vector<nlohmann::json> spans;
  int64_t names = 0;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "X") spans.push_back(event);
    names += event.at("ph") == "M" ? 1 : 0;
  }
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(names, 2 * (1 + 7));
  EXPECT_EQ(spans[0].at("name"), "attention 0");
  EXPECT_EQ(spans[0].at("pid"), 0);
  EXPECT_DOUBLE_EQ(spans[0].at("ts").get<double>(), 1000.0) << "microseconds from the first span on";
  EXPECT_DOUBLE_EQ(spans[0].at("dur").get<double>(), 2000.0);
  EXPECT_DOUBLE_EQ(spans[1].at("ts").get<double>(), 0.0);
  EXPECT_NE(spans[0].at("tid"), spans[1].at("tid"));
  EXPECT_EQ(spans[2].at("pid"), 1);
}

TEST(Trace, OfNothingIsEmpty) { EXPECT_TRUE(nlohmann::json::parse(format_trace({})).at("traceEvents").empty()); }

}  // namespace
}  // namespace zp
