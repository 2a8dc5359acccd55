// Every strategy computes what one rank computes, moves what Table 1 says, and fails as a whole.
#include "zp/engine/lockstep_group.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/engine/group_under_test.h"
#include "tests/support/errors.h"

namespace zp {
namespace {

using test::expect_error;
using test::GroupOptions;
using test::GroupUnderTest;
using test::LastLogits;
using test::ModelOptions;
using test::ModelUnderTest;
using Sequences = std::vector<std::vector<int32_t>>;
using Part = ModelUnderTest::Part;

const std::filesystem::path kRoot = ZP_SOURCE_DIR;

std::filesystem::path folder_of(const std::string& model) {
  return model == "demo-moe" ? kRoot / "models/demo-moe" : kRoot / "tests/data/models" / model;
}

// Sequences of many lengths, the longest a few chunks, made up but not uniform.
Sequences sequences_for(const ModelShape& shape) {
  Sequences sequences;
  for (const int32_t length : {1, 37, 150, 16, 3, 64, 129, 2, 90}) {
    std::vector<int32_t>& ids = sequences.emplace_back();
    for (int32_t i = 0; i < length; ++i) ids.push_back((length * 31 + i * i * 7 + i) % shape.vocabulary);
  }
  return sequences;
}

double relative_difference(const LastLogits& a, const LastLogits& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.logits.size(); ++i) {
    difference += std::pow(static_cast<double>(a.logits[i]) - static_cast<double>(b.logits[i]), 2);
    norm += std::pow(static_cast<double>(b.logits[i]), 2);
  }
  EXPECT_GT(norm, 1.0) << "the sequence says nothing";
  return std::sqrt(difference / norm);
}

::testing::AssertionResult same_bits(const LastLogits& a, const LastLogits& b) {
  for (size_t i = 0; i < a.logits.size(); ++i)
    if (std::bit_cast<uint32_t>(a.logits[i]) != std::bit_cast<uint32_t>(b.logits[i]))
      return ::testing::AssertionFailure() << "logit " << i << ": " << a.logits[i] << " and " << b.logits[i];
  if (std::bit_cast<uint32_t>(a.log_sum_exp) != std::bit_cast<uint32_t>(b.log_sum_exp))
    return ::testing::AssertionFailure() << "log-sum-exp " << a.log_sum_exp << " and " << b.log_sum_exp;
  return ::testing::AssertionSuccess();
}

struct Case {
  std::string model;
  std::string strategy;
  ComputeType compute = ComputeType::kF32;
};

// As in tests/model/forward_test.cpp, where a computation is compared with the truth: 8 * sqrt(roundings) * eps, with
// 10 roundings a layer. Here two computations are compared, each with its own errors (sqrt(2)), and a group rounds four
// times more a layer: its partial sums of both halves, where they are sent and where they have been added.
double tolerance_of(ComputeType compute, int32_t layers) {
  const double eps = compute == ComputeType::kBf16 ? 0x1p-9 : 0x1p-24;
  return 8 * std::sqrt(2.0) * std::sqrt(14.0 * layers) * eps;
}

class StrategyTest : public ::testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] GroupOptions options(int32_t ranks, int64_t chunk_tokens = 64) const {
    return {GetParam().strategy, ranks, GetParam().compute, chunk_tokens};
  }
  [[nodiscard]] std::filesystem::path folder() const { return folder_of(GetParam().model); }
  [[nodiscard]] ModelOptions single() const {
    return {.activation = GetParam().compute == ComputeType::kBf16 ? DType::kBf16 : DType::kF32};
  }
  // Whether rows travel unrounded and are summed as on one rank, so that not a bit may change.
  [[nodiscard]] bool keeps_bits(int32_t ranks) const {
    const std::string& strategy = GetParam().strategy;
    return GetParam().compute == ComputeType::kF32 && (ranks == 1 || strategy == "dp+ep" || strategy == "pp+pp");
  }
  [[nodiscard]] std::vector<std::string> problems_on(int32_t ranks, const ModelShape& shape) const {
    return problems(shape, {*parse_strategy(GetParam().strategy), ranks});
  }
};

TEST_P(StrategyTest, LogitsAgreeWithOneRank) {
  ModelUnderTest one(folder(), single());
  const Sequences sequences = sequences_for(one.shape());
  std::vector<LastLogits> expected;
  for (const auto& ids : sequences) expected.push_back(one.run_alone(ids));
  const double tolerance = tolerance_of(GetParam().compute, one.shape().layers);
  double worst = 0;
  int32_t groups = 0;
  for (const int32_t ranks : {1, 2, 3, 4, 8}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const std::vector<std::string> refused = problems_on(ranks, one.shape());
    if (!refused.empty()) {
      expect_error([&] { GroupUnderTest group(folder(), options(ranks)); }, ErrorCode::kInvalidArgument,
                   {GetParam().strategy, std::to_string(ranks) + " ranks", refused.front()});
      continue;
    }
    ++groups;
    GroupUnderTest group(folder(), options(ranks));
    const std::vector<LastLogits> all = group.run(sequences);
    for (size_t i = 0; i < sequences.size(); ++i) {
      SCOPED_TRACE(std::to_string(sequences[i].size()) + " tokens");
      const double difference = relative_difference(all[i], expected[i]);
      worst = std::max(worst, difference);
      EXPECT_LE(difference, tolerance);
      if (keeps_bits(ranks)) {
        EXPECT_TRUE(same_bits(all[i], expected[i]));
      }
    }
    // The same bits alone, and in another batch and order: a row depends on no other row.
    const Sequences alone = {sequences[2]};
    EXPECT_TRUE(same_bits(group.run(alone).front(), all[2]));
    const Sequences reversed(sequences.rbegin(), sequences.rend());
    const std::vector<LastLogits> again = group.run(reversed);
    for (size_t i = 0; i < sequences.size(); ++i)
      EXPECT_TRUE(same_bits(again[sequences.size() - 1 - i], all[i])) << sequences[i].size() << " tokens";
  }
  EXPECT_GE(groups, 2) << "hardly anything was compared";
  std::cout << "largest relative difference " << worst << ", tolerance " << tolerance << "\n";
}

TEST_P(StrategyTest, ChunksOfAnySizeGiveTheSameBits) {
  const Sequences sequences = sequences_for(ModelFiles(folder()).shape());
  std::vector<LastLogits> whole;
  for (const int64_t chunk : {1024, 1, 6, 50}) {
    GroupUnderTest group(folder(), options(2, chunk));
    const std::vector<LastLogits> logits = group.run(sequences);
    if (whole.empty()) whole = logits;
    for (size_t i = 0; i < sequences.size(); ++i) EXPECT_TRUE(same_bits(logits[i], whole[i])) << "chunks of " << chunk;
  }
}

// Each rank keeps its part of the keys and values; with DP attention the first rank has the sequence.
TEST_P(StrategyTest, ReusedPrefixesGiveTheSameBits) {
  GroupUnderTest group(folder(), options(2));
  const std::vector<int32_t> ids = sequences_for(group.shape())[2];
  const Sequences alone = {ids};
  const LastLogits cold = group.run(alone).front();
  std::vector<int32_t> sibling(ids.begin(), ids.begin() + 64);
  for (int32_t i = 0; i < 11; ++i) sibling.push_back((i * 37 + 5) % group.shape().vocabulary);
  const LastLogits sibling_cold = group.run(Sequences{sibling}).front();

  for (const bool kept : {false, true}) {  // whether the rows that the sibling reads are kept as well
    ForwardStep together;
    together.candidate_offsets.push_back(0);
    group.add_sequence(together, ids, 0, {});
    if (kept) together.keep = {{.row = 0, .tokens = 96, .block = 3}};
    group.add_sequence(together, sibling, 64, {{KvRun::Place::kStep, 0, 64}});
    const StepReport report = std::move(group.run_steps({together}).front());
    EXPECT_TRUE(same_bits(group.logits_of(report, 0), cold));
    EXPECT_TRUE(same_bits(group.logits_of(report, 1), sibling_cold));
  }
  ForwardStep later;
  later.candidate_offsets.push_back(0);
  group.add_sequence(later, ids, 96, {{KvRun::Place::kPool, 3, 96}});
  EXPECT_TRUE(same_bits(group.logits_of(group.run_steps({later}).front(), 0), cold));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* strategy : {"dp+ep", "dp+tp", "tp+ep", "tp+tp", "pp+pp"}) {
    for (const char* model : {"moe_f32", "mixed_layers_bf16", "tied_sharded_f16", "aligned_bf16", "demo-moe"})
      all.push_back({model, strategy, ComputeType::kF32});
    all.push_back({"aligned_bf16", strategy, ComputeType::kBf16});
    all.push_back({"demo-moe", strategy, ComputeType::kBf16});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, StrategyTest, ::testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.strategy + "_" + test.param.model + "_" +
                     (test.param.compute == ComputeType::kBf16 ? "in_bf16" : "in_f32");
  for (char& c : name)
    if (c == '+' || c == '-') c = '_';
  return name;
});

// Table 1 of the paper prices, for each device and layer (docs/notes/baselines.md says what its B * S stands for in
// each row, and which directions it counts). B * S here: `tokens`.
struct Table1 {
  int64_t ranks, tokens, hidden, element_bytes;
  // 2 (P - 1) / P * B S H b: an all-reduce one way, or one way and back of an all-gather or reduce-scatter.
  [[nodiscard]] uint64_t ring() const {
    return static_cast<uint64_t>(2 * (ranks - 1) * tokens / ranks * hidden * element_bytes);
  }
};

class TrafficTest : public ::testing::TestWithParam<ComputeType> {
 protected:
  static constexpr int64_t kTokens = 48;  // of each sequence

  // One step in which every rank has the same number of tokens: `sequences` of them.
  void run(const std::string& strategy, int32_t ranks, int32_t sequences) {
    group_ = std::make_unique<GroupUnderTest>(folder_of("demo-moe"),
                                              GroupOptions{strategy, ranks, GetParam(), /*chunk_tokens=*/48});
    Sequences all;
    for (int32_t s = 0; s < sequences; ++s) {
      all.emplace_back();
      for (int32_t i = 0; i < kTokens; ++i) all.back().push_back((s * 101 + i * 7) % 4096);
    }
    (void)group_->run(all);
  }
  [[nodiscard]] int64_t element_bytes() const { return GetParam() == ComputeType::kBf16 ? 2 : 4; }
  [[nodiscard]] Table1 table(int64_t ranks, int64_t tokens) const { return {ranks, tokens, 192, element_bytes()}; }
  [[nodiscard]] TrafficBytes bytes(int32_t rank, int32_t layer, CollectiveKind kind) const {
    return group_->group().collectives(rank).traffic().count(layer, kind, TrafficUse::kActivations).bytes;
  }
  [[nodiscard]] TrafficBytes total(int32_t rank) const {
    return group_->group().collectives(rank).traffic().total(TrafficUse::kActivations).bytes;
  }

  std::unique_ptr<GroupUnderTest> group_;
};

// 2 all-reduces, one way: 4 (P - 1) / P * B S H b.
TEST_P(TrafficTest, OfTpTpIsTable1s) {
  for (const int32_t ranks : {1, 2}) {
    run("tp+tp", ranks, 3);
    for (int32_t r = 0; r < ranks; ++r) {
      for (int32_t l = 0; l < 6; ++l) {
        EXPECT_EQ(bytes(r, l, CollectiveKind::kAllReduce).received, 2 * table(ranks, 3 * kTokens).ring());
        EXPECT_EQ(bytes(r, l, CollectiveKind::kAllReduce).sent, 2 * table(ranks, 3 * kTokens).ring());
      }
      EXPECT_EQ(total(r).received, 6 * 2 * table(ranks, 3 * kTokens).ring()) << "and nothing else";
    }
  }
}

// 1 all-gather and 1 reduce-scatter, each way: 4 (P - 1) / P * B S H b with the tokens of all ranks.
TEST_P(TrafficTest, OfDpTpIsTable1s) {
  for (const int32_t ranks : {1, 2, 4, 8}) {
    run("dp+tp", ranks, ranks);
    for (int32_t r = 0; r < ranks; ++r) {
      for (int32_t l = 0; l < 6; ++l) {
        const TrafficBytes gather = bytes(r, l, CollectiveKind::kAllGather);
        const TrafficBytes scatter = bytes(r, l, CollectiveKind::kReduceScatter);
        EXPECT_EQ(gather.sent + gather.received, table(ranks, ranks * kTokens).ring());
        EXPECT_EQ(scatter.sent + scatter.received, table(ranks, ranks * kTokens).ring());
      }
      EXPECT_EQ(total(r).sent + total(r).received, 6 * 2 * table(ranks, ranks * kTokens).ring());
    }
  }
}

// 1 all-reduce, here as a reduce-scatter after attention and an all-gather before the next: 2 (P - 1) / P * B S H b.
// The first layer's all-gather and the last layer's reduce-scatter have no partner in the same layer; each layer has
// one of each. Its all-to-alls are those of ExpertExchangeTest, for the 1 / P of the tokens that a rank owns.
TEST_P(TrafficTest, OfTpEpHasTable1sAllReduceAndKRowsATokenInTheExchange) {
  for (const int32_t ranks : {1, 2}) {
    run("tp+ep", ranks, 3);
    TrafficBytes exchanged;
    for (int32_t r = 0; r < ranks; ++r) {
      for (int32_t l = 0; l < 6; ++l) {
        EXPECT_EQ(
            bytes(r, l, CollectiveKind::kReduceScatter).received + bytes(r, l, CollectiveKind::kAllGather).received,
            table(ranks, 3 * kTokens).ring());
        exchanged.sent += bytes(r, l, CollectiveKind::kAllToAll).sent;
        exchanged.received += bytes(r, l, CollectiveKind::kAllToAll).received;
      }
    }
    EXPECT_EQ(exchanged.sent, exchanged.received);
    // Out and back, of the k = 2 rows of each token at most all.
    EXPECT_LE(exchanged.sent, static_cast<uint64_t>(6 * 2 * 2 * 3 * kTokens * 192 * element_bytes()));
    EXPECT_EQ(exchanged.sent > 0, ranks > 1);
  }
}

// Every token's rows leave their rank unless their experts are there: what is sent is what is received, out and back
// the same, and on one rank nothing.
TEST_P(TrafficTest, OfDpEpIsOutAndBackTheSame) {
  for (const int32_t ranks : {1, 2, 4, 8}) {
    run("dp+ep", ranks, ranks);
    for (int32_t r = 0; r < ranks; ++r) {
      for (int32_t l = 0; l < 6; ++l) {
        // Sent: own rows out, and results of others' rows back. Received: their rows, and own results.
        const TrafficBytes moved = bytes(r, l, CollectiveKind::kAllToAll);
        EXPECT_EQ(moved.sent, moved.received);
        EXPECT_EQ(moved.sent > 0, ranks > 1);
      }
      EXPECT_EQ(total(r).sent > 0, ranks > 1);
    }
  }
}

// A receive from the stage before and a send to the stage after: 2 B S H b for a stage in the middle, once a stage.
TEST_P(TrafficTest, OfPpPpIsTable1sForAStageInTheMiddle) {
  for (const int32_t ranks : {1, 2, 3, 6}) {
    run("pp+pp", ranks, 5);
    const auto hop = static_cast<uint64_t>(5 * kTokens * 192 * element_bytes());
    for (int32_t r = 0; r < ranks; ++r) {
      EXPECT_EQ(total(r).received, r > 0 ? hop : 0);
      EXPECT_EQ(total(r).sent, r + 1 < ranks ? hop : 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TrafficTest, ::testing::Values(ComputeType::kF32, ComputeType::kBf16),
                         [](const auto& test) { return test.param == ComputeType::kF32 ? "f32" : "bf16"; });

TEST(LockstepGroup, ARankThatIsLostFailsEveryStepWithItsCause) {
  for (const char* strategy : {"dp+ep", "dp+tp", "tp+ep", "tp+tp", "pp+pp"}) {
    SCOPED_TRACE(strategy);
    GroupUnderTest group(folder_of("aligned_bf16"), {strategy, 2, ComputeType::kF32, 16});
    const Sequences sequences = sequences_for(group.shape());
    (void)group.run(sequences);
    group.group().abort(1, std::make_exception_ptr(Error(ErrorCode::kDevice, "the card fell off")));
    for (int32_t i = 0; i < 2; ++i)
      expect_error([&] { (void)group.run(sequences); }, ErrorCode::kDevice, {"rank 1", "the card fell off"});
  }
}

// While ranks are in the middle of a step, too.
TEST(LockstepGroup, ARankThatIsLostInAStepLeavesNobodyWaiting) {
  GroupUnderTest group(folder_of("demo-moe"), {"dp+tp", 4, ComputeType::kF32, 4});
  const Sequences sequences = sequences_for(group.shape());
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    group.group().abort(3, std::make_exception_ptr(Error(ErrorCode::kDevice, "the card fell off")));
  });
  expect_error(
      [&] {
        while (true) (void)group.run(sequences);
      },
      ErrorCode::kDevice, {"rank 3", "the card fell off"});
  killer.join();
}

TEST(LockstepGroup, RanksWithoutAStepTakePart) {
  GroupUnderTest group(folder_of("moe_f32"), {"dp+ep", 4, ComputeType::kF32, 64});
  ModelUnderTest one(folder_of("moe_f32"), {});
  const Sequences sequences = {sequences_for(one.shape())[2]};
  EXPECT_TRUE(same_bits(group.run(sequences).front(), one.run_alone(sequences[0])));
}

TEST(GroupSetup, RefusesUnknownStrategiesByName) {
  EngineConfig config;
  config.model = folder_of("moe_f32");
  config.strategy = "sp+ep";
  const ModelFiles files(config.model);
  expect_error([&] { (void)make_group_setup(config, files); }, ErrorCode::kInvalidArgument, {"sp+ep", "dp+ep"});
}

TEST(GroupSetup, PlansTheMemoryOfAllRanks) {
  const ModelFiles files(folder_of("demo-moe"));
  const auto bytes_of = [&](const char* strategy, int32_t ranks, size_t item) {
    return make_group_setup(GroupUnderTest::config_of(folder_of("demo-moe"), {strategy, ranks}), files)
        .plan.items.at(item)
        .bytes;
  };
  constexpr size_t kWeights = 0, kExperts = 1;
  const uint64_t experts = bytes_of("dp+ep", 1, kExperts);
  for (const char* strategy : {"dp+ep", "dp+tp", "tp+ep", "tp+tp", "pp+pp"})
    EXPECT_EQ(bytes_of(strategy, 2, kExperts), experts) << strategy << ": every expert is stored once";
  EXPECT_EQ(bytes_of("dp+ep", 4, kWeights), 4 * bytes_of("dp+ep", 1, kWeights));
  EXPECT_LT(bytes_of("tp+tp", 2, kWeights), 2 * bytes_of("tp+tp", 1, kWeights));
  EngineConfig small = GroupUnderTest::config_of(folder_of("demo-moe"), {"dp+ep", 4});
  small.memory_limit_bytes = 1000;
  expect_error([&] { (void)make_group_setup(small, files); }, ErrorCode::kOutOfMemory, {"experts", "1000 B"});
}

}  // namespace
}  // namespace zp
