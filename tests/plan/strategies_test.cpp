// Bytes of the strategies against hand-computed ones, and which of them a model allows.
#include "zp/plan/strategies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "zp/shape/known_models.h"

namespace zp {
namespace {

using ::testing::HasSubstr;

const ModelShape& large() { return find_known_model("Qwen3-235B-A22B")->shape; }

// 4 devices, 1,000 tokens each, H = 4096, k = 8, b = 2: rows of 8,192 bytes; 3 of 4 parts are others'.
TEST(StrategyTraffic, IsWhatCountingGives) {
  const auto traffic = [](std::string_view name) {
    return strategy_traffic(large(), name, {.ranks = 4, .rank_tokens = 1000, .element_bytes = 2});
  };
  constexpr double kRow = 8192;
  EXPECT_EQ(traffic("dp+dp").moved_bytes, 0);
  // All 4,000 rows but its own 1,000 come in before the experts, as many go out after them.
  EXPECT_EQ(traffic("dp+tp").moved_bytes, 2 * 3000 * kRow);
  EXPECT_EQ(traffic("dp+tp").table_bytes, 4 * 3000 * kRow);
  // Of 8 choices a token, 6 are elsewhere; there and back.
  EXPECT_EQ(traffic("dp+ep").moved_bytes, 2 * 6 * 1000 * kRow);
  EXPECT_EQ(traffic("dp+ep").table_bytes, 4 * 6 * 1000 * kRow);
  // Two all-reduces, each a reduce-scatter and an all-gather of all rows.
  EXPECT_EQ(traffic("tp+tp").moved_bytes, 4 * 3000 * kRow);
  EXPECT_EQ(traffic("tp+tp").table_bytes, 4 * 3000 * kRow);
  EXPECT_EQ(traffic("tp+ep").moved_bytes, 2 * 3000 * kRow + 2 * 6 * 1000 * kRow);
  EXPECT_EQ(traffic("pp+pp").moved_bytes, 4000 * kRow);
  EXPECT_EQ(traffic("pp+pp").table_bytes, 2 * 4000 * kRow);
  // Keys and values of the others' rows: 2 * 4 heads * 128 * 2 bytes.
  EXPECT_EQ(traffic("sp+tp").moved_bytes, 3000 * 2048.0 + 2 * 3000 * kRow);
  EXPECT_EQ(traffic("sp+ep").moved_bytes, 3000 * 2048.0 + 2 * 6 * 1000 * kRow);
}

TEST(StrategyTraffic, OfOneDeviceIsNothing) {
  for (const char* name : {"dp+dp", "dp+tp", "dp+ep", "tp+tp", "tp+ep", "pp+pp", "sp+tp", "sp+ep"})
    EXPECT_EQ(strategy_traffic(large(), name, {.ranks = 1, .rank_tokens = 1000}).moved_bytes, 0) << name;
}

// Gathering a layer's weights moves fewer bytes than DP+EP from 3 E h / (4 k) tokens a device on, by Table 1: 18,432.
TEST(StrategyTraffic, MeetsTheWeightGatherWhereItShould) {
  const StrategyTraffic ep = strategy_traffic(large(), "dp+ep", {.ranks = 8, .rank_tokens = 18'432});
  EXPECT_DOUBLE_EQ(ep.table_bytes, 7.0 / 8 * 128 * 3 * 4096 * 1536 * 2);
}

StrategySpec spec_for(int32_t ranks) {
  return {.traffic = {.ranks = ranks, .rank_tokens = 1000, .element_bytes = 2},
          .expert_element_bytes = 2,
          .limit_bytes = uint64_t{1} << 50,
          .other_bytes = 0,
          .layer_seconds = 1e-3,
          .peer_bandwidth = 1e11};
}

const StrategyReport& named(const std::vector<StrategyReport>& reports, std::string_view name) {
  for (const StrategyReport& report : reports)
    if (report.name == name) return report;
  throw std::runtime_error("no such strategy");
}

TEST(CompareStrategies, RefusesWhatDoesNotDivide) {
  const auto of_seven = compare_strategies(large(), spec_for(7));
  EXPECT_THAT(named(of_seven, "tp+tp").impossible, HasSubstr("7 ranks do not divide 64 query heads"));
  EXPECT_THAT(named(of_seven, "dp+tp").impossible, HasSubstr("7 ranks do not divide 1536 inner features"));
  EXPECT_EQ(named(of_seven, "dp+ep").impossible, "");
  EXPECT_THAT(named(compare_strategies(large(), spec_for(128)), "pp+pp").impossible,
              HasSubstr("128 ranks are more than 94"));
  EXPECT_EQ(named(compare_strategies(large(), spec_for(8)), "tp+tp").impossible, "");  // 8 ranks share 4 kv heads
}

TEST(CompareStrategies, RefusesWhatDoesNotFit) {
  StrategySpec spec = spec_for(8);
  spec.limit_bytes = uint64_t{80} << 30;
  const auto reports = compare_strategies(large(), spec);
  EXPECT_THAT(named(reports, "dp+dp").impossible, HasSubstr("a device needs"));
  EXPECT_EQ(named(reports, "tp+tp").impossible, "");
  spec.other_bytes = uint64_t{30} << 30;  // 235B in bf16 over 8 devices: 55 GiB of experts, and the rest
  EXPECT_THAT(named(compare_strategies(large(), spec), "tp+tp").impossible, HasSubstr("a device needs"));
}

TEST(CompareStrategies, CountsWeightsOnce) {
  const auto reports = compare_strategies(large(), spec_for(1));
  // 235.09e9 parameters in bf16, whatever the strategy, on one device.
  for (const StrategyReport& report : reports)
    EXPECT_NEAR(static_cast<double>(report.weight_bytes), 470.2e9, 0.1e9) << report.name;
  // 227.1e9 of experts and 6.7e9 of attention in bf16.
  const auto of_eight = compare_strategies(large(), spec_for(8));
  const double whole = 470.2e9;
  EXPECT_NEAR(static_cast<double>(named(of_eight, "dp+ep").weight_bytes), whole - 454.2e9 * 7 / 8, 0.2e9);
  EXPECT_NEAR(static_cast<double>(named(of_eight, "tp+ep").weight_bytes), whole - (454.2e9 + 13.4e9) * 7 / 8, 0.2e9);
}

TEST(CompareStrategies, TakeLayerTimeAndTransferInTurn) {
  const auto reports = compare_strategies(large(), spec_for(4));
  EXPECT_DOUBLE_EQ(named(reports, "dp+dp").tokens_per_second, 4000 / (94 * 1e-3));
  EXPECT_DOUBLE_EQ(named(reports, "tp+tp").tokens_per_second, 4000 / (94 * (1e-3 + 4 * 3000 * 8192 / 1e11)));
  EXPECT_DOUBLE_EQ(named(reports, "pp+pp").tokens_per_second, 4000 / (94 * 1e-3 + 4000 * 8192 / 1e11));
  StrategySpec unlinked = spec_for(4);
  unlinked.peer_bandwidth = 0;
  EXPECT_THAT(named(compare_strategies(large(), unlinked), "tp+tp").impossible, HasSubstr("no link"));
}

}  // namespace
}  // namespace zp
