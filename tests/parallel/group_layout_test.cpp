// Which models a strategy takes, which part of them each rank holds, and which rows it works on.
#include "zp/parallel/group_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "zp/parallel/rounds.h"

namespace zp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelShape shape_under_test() {
  ModelShape shape;
  shape.layers = 5;
  shape.hidden = 8;
  shape.query_heads = 8;
  shape.kv_heads = 2;
  shape.head_dim = 4;
  shape.experts = 7;
  shape.experts_per_token = 2;
  shape.expert_intermediate = 24;
  shape.dense_intermediate = 40;
  shape.feed_forward = {FeedForward::kMoe, FeedForward::kMoe, FeedForward::kDense, FeedForward::kMoe,
                        FeedForward::kMoe};
  return shape;
}

TEST(GroupLayout, StrategiesHaveNames) {
  for (const Strategy strategy : {Strategy::kDpEp, Strategy::kDpTp, Strategy::kTpEp, Strategy::kTpTp, Strategy::kPpPp})
    EXPECT_EQ(parse_strategy(to_string(strategy)), strategy);
  EXPECT_EQ(parse_strategy("sp+ep"), std::nullopt);
}

TEST(GroupLayout, RefusesWhatDoesNotDivideByName) {
  const ModelShape shape = shape_under_test();
  EXPECT_THAT(problems(shape, {Strategy::kTpTp, 3}),
              ElementsAre("tp+tp on 3 ranks: 3 does not divide the 8 query heads",
                          "tp+tp on 3 ranks: neither does 3 divide the 2 kv heads, nor they 3",
                          "tp+tp on 3 ranks: 3 does not divide the 40 inner features of a dense layer"));
  EXPECT_THAT(problems(shape, {Strategy::kDpTp, 5}),
              ElementsAre("dp+tp on 5 ranks: 5 does not divide the 24 inner features of an expert"));
  EXPECT_THAT(problems(shape, {Strategy::kPpPp, 6}), ElementsAre(HasSubstr("there are only 5 layers")));
  for (const int32_t ranks : {1, 2, 4, 8}) EXPECT_THAT(problems(shape, {Strategy::kTpTp, ranks}), ElementsAre());
  for (const int32_t ranks : {1, 3, 7, 9}) EXPECT_THAT(problems(shape, {Strategy::kDpEp, ranks}), ElementsAre());
}

// Every index of [0, count) is in exactly one rank's range, and ranges follow each other.
void expect_partition(const ModelShape& shape, const GroupLayout& layout, IndexRange ModelShard::*part, int32_t count) {
  int32_t next = 0;
  for (int32_t r = 0; r < layout.ranks; ++r) {
    const IndexRange range = shard_of(shape, layout, r).*part;
    EXPECT_EQ(range.begin, next);
    next = range.end();
  }
  EXPECT_EQ(next, count);
}

TEST(GroupLayout, RanksHoldEveryPartOnce) {
  const ModelShape shape = shape_under_test();
  for (const int32_t ranks : {1, 2, 4, 8}) {
    expect_partition(shape, {Strategy::kTpTp, ranks}, &ModelShard::query_heads, 8);
    expect_partition(shape, {Strategy::kTpTp, ranks}, &ModelShard::expert_intermediate, 24);
    expect_partition(shape, {Strategy::kTpEp, ranks}, &ModelShard::dense_intermediate, 40);
    expect_partition(shape, {Strategy::kTpEp, ranks}, &ModelShard::experts, 7);
    expect_partition(shape, {Strategy::kDpEp, ranks}, &ModelShard::experts, 7);
    if (ranks <= 5) expect_partition(shape, {Strategy::kPpPp, ranks}, &ModelShard::layers, 5);
  }
}

TEST(GroupLayout, QueryHeadsAreWithTheirKvHead) {
  const ModelShape shape = shape_under_test();
  for (const int32_t ranks : {1, 2, 4, 8}) {
    for (int32_t r = 0; r < ranks; ++r) {
      const ModelShard shard = shard_of(shape, {Strategy::kTpTp, ranks}, r);
      for (int32_t q = 0; q < shard.query_heads.count; ++q) {
        const int32_t local = shard.kv_heads.begin + q / (shard.query_heads.count / shard.kv_heads.count);
        EXPECT_EQ(local, (shard.query_heads.begin + q) / (shape.query_heads / shape.kv_heads));
      }
    }
  }
}

TEST(GroupLayout, OwnersHoldTheirExperts) {
  const ModelShape shape = shape_under_test();
  for (const int32_t ranks : {1, 3, 9}) {
    const GroupLayout layout{Strategy::kDpEp, ranks};
    const std::vector<int32_t> owners = expert_owners(shape, layout);
    for (int32_t e = 0; e < shape.experts; ++e)
      EXPECT_TRUE(shard_of(shape, layout, owners[static_cast<size_t>(e)]).experts.contains(e));
  }
}

TEST(GroupLayout, ShardsAreModels) {
  const ModelShape shape = shape_under_test();
  const ModelShape stage = shape_of(shape, shard_of(shape, {Strategy::kPpPp, 2}, 1));
  EXPECT_EQ(stage.layers, 2);
  EXPECT_THAT(stage.feed_forward, ElementsAre(FeedForward::kMoe, FeedForward::kMoe));
  const ModelShape slice = shape_of(shape, shard_of(shape, {Strategy::kTpTp, 4}, 3));
  EXPECT_EQ(slice.query_heads, 2);
  EXPECT_EQ(slice.kv_heads, 1);
  EXPECT_EQ(slice.expert_intermediate, 6);
  EXPECT_EQ(slice.experts, 7);
}

// What every strategy needs: the same counts on all ranks, and each row owned once and attended to by whom it should.
TEST(Rounds, CoverEveryRowOnce) {
  for (const Strategy strategy : {Strategy::kDpEp, Strategy::kDpTp, Strategy::kTpEp, Strategy::kTpTp}) {
    for (const int32_t ranks : {1, 2, 3, 5}) {
      SCOPED_TRACE(std::string(to_string(strategy)) + " " + std::to_string(ranks));
      const GroupLayout layout{strategy, ranks};
      std::vector<int64_t> tokens;
      for (int32_t r = 0; r < ranks; ++r) tokens.push_back(layout.attention_is_dp() ? (r * 17) % 23 : 31);
      constexpr int64_t kChunk = 10;
      std::vector<std::vector<Round>> rounds;
      for (int32_t r = 0; r < ranks; ++r) rounds.push_back(make_rounds({layout, r, tokens, kChunk}));
      for (int32_t r = 0; r < ranks; ++r) {
        const auto& of_rank = rounds[static_cast<size_t>(r)];
        ASSERT_EQ(of_rank.size(), rounds[0].size());
        int64_t attended = 0;
        for (size_t i = 0; i < of_rank.size(); ++i) {
          const Round& round = of_rank[i];
          EXPECT_EQ(round.counts, rounds[0][i].counts);
          EXPECT_LE(round.total, kChunk);
          EXPECT_LE(round.own.at + round.own.count, round.total);
          if (round.attention.count > 0) {
            EXPECT_EQ(round.attention.row, attended);
          }
          attended += round.attention.count;
          EXPECT_EQ(round.own.count, round.counts[static_cast<size_t>(r)]);
          EXPECT_EQ(round.own.row - round.own.at, round.attention.row - round.attention.at);
        }
        EXPECT_EQ(attended, tokens[static_cast<size_t>(r)]);
      }
      if (!layout.attention_is_tp()) continue;
      const std::vector<int32_t> owners = row_owners({layout, 0, tokens, kChunk});
      ASSERT_EQ(owners.size(), 31U);
      for (int32_t r = 0; r < ranks; ++r)
        for (const Round& round : rounds[static_cast<size_t>(r)])
          for (int64_t row = round.attention.row; row < round.attention.row + round.attention.count; ++row) {
            const bool owned = owners.at(static_cast<size_t>(row)) == r;
            EXPECT_TRUE(!owned || (row >= round.own.row && row < round.own.row + round.own.count)) << row;
          }
    }
  }
}

}  // namespace
}  // namespace zp
