// Pictures hold together and stay small.
#include "zp/simulate/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/simulate/simulation_under_test.h"

namespace zp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int64_t count(const std::string& text, const std::string& part) {
  int64_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Plot, ShowsALaneForEachRank) {
  SimulationSpec spec = test::simulation(3, 200);
  spec.step.transfer_seconds = 3000e-6;
  const std::string svg = plot_svg(simulate(spec, test::grouped(20, 10, 64, 30)), "a <title> & \"more\"");
  EXPECT_THAT(svg, HasSubstr("a &lt;title&gt; &amp; &quot;more&quot;"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, HasSubstr("#cf222e"));  // exposed time
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_EQ(count(svg, "<polyline"), 1);
}

TEST(Plot, WithoutExposedTimeHasNoRed) {
  const std::string svg = plot_svg(simulate(test::simulation(1, 200), test::grouped(5, 10, 64, 30)), "t");
  EXPECT_THAT(svg, HasSubstr("#2da44e"));
  EXPECT_THAT(svg, Not(HasSubstr("#cf222e")));
}

// Two ranks, one of which works half of the time: three quarters of both lanes' columns are green.
TEST(Plot, AreasAreTimes) {
  SimulationReport report;
  report.makespan_seconds = 240e-9;
  report.ranks.resize(2);
  report.steps = {{.rank = 0, .start_ns = 0, .end_ns = 240, .exposed_ns = 0, .tokens = 10},
                  {.rank = 1, .start_ns = 120, .end_ns = 240, .exposed_ns = 0, .tokens = 10}};
  EXPECT_EQ(count(plot_svg(report, "t"), "#2da44e"), 240 + 120);
}

TEST(Plot, StaysSmallHoweverManyStepsAndRanks) {
  SimulationReport report;
  report.makespan_seconds = 1e-3;
  report.ranks.resize(1024);
  for (int32_t i = 0; i < 50'000; ++i)
    report.steps.push_back({.rank = i % 1024, .start_ns = i * 20, .end_ns = i * 20 + 20, .exposed_ns = 5, .tokens = 3});
  EXPECT_LT(plot_svg(report, "t").size(), 4U << 20);
}

}  // namespace
}  // namespace zp
