// Tokens find their experts on other ranks: results against one rank that has them all, and bytes against Table 1.
#include "zp/parallel/expert_exchange.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/parallel/group.h"
#include "zp/ops/factory.h"

namespace zp {
namespace {

using test::GroupUnderTest;

constexpr int64_t kHidden = 24;
constexpr int64_t kIntermediate = 16;
constexpr int32_t kChosen = 2;

// Experts 2r and 2r + 1 are on rank r.
ModelShape shape_for(int32_t ranks) {
  ModelShape shape;
  shape.layers = 1;
  shape.hidden = kHidden;
  shape.experts = 2 * ranks;
  shape.experts_per_token = kChosen;
  shape.expert_intermediate = kIntermediate;
  shape.feed_forward = {FeedForward::kMoe};
  return shape;
}

// What one rank works with. Buffers as Forward has them.
struct RankUnderTest {
  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
  std::vector<Buffer> blobs;
  std::vector<const std::byte*> experts;  // all of them
  Tensor normed, delta, ids, weights, expected;

  RankUnderTest(const ModelShape& shape, DType activation, int64_t chunk) {
    device = make_device({.kind = DeviceKind::kCpu, .index = 0, .threads = 1});
    ops = make_ops(*device, {.activation = activation,
                             .limits = {.moe_tokens = chunk,
                                        .experts_per_token = kChosen,
                                        .experts = shape.experts,
                                        .expert = {kHidden, kIntermediate},
                                        .head_dim = 4,
                                        .head_rows = 1,
                                        .vocabulary = 1}});
    normed = Tensor(*device, activation, {chunk, kHidden});
    delta = Tensor(*device, DType::kF32, {chunk, kHidden});
    expected = Tensor(*device, DType::kF32, {chunk, kHidden});
    ids = Tensor(*device, DType::kI32, {chunk, kChosen});
    weights = Tensor(*device, DType::kF32, {chunk, kChosen});
    // The same experts on every rank's own device, so that each can compute what the exchange should give.
    std::mt19937 engine(7);
    std::normal_distribution<float> normal(0.0F, 0.3F);
    std::vector<float> gate(kIntermediate * kHidden), up(gate.size()), down(gate.size());
    for (int32_t e = 0; e < shape.experts; ++e) {
      for (auto* matrix : {&gate, &up, &down})
        for (float& value : *matrix) value = normal(engine);
      Buffer& blob = blobs.emplace_back(device->allocate(ops->expert_blob_bytes({kHidden, kIntermediate})));
      ops->pack_expert(view_of(gate.data(), {kIntermediate, kHidden}), view_of(up.data(), {kIntermediate, kHidden}),
                       view_of(down.data(), {kHidden, kIntermediate}), blob.bytes());
      experts.push_back(blob.data());
    }
  }
};

struct Case {
  int32_t ranks = 1;
  DType activation = DType::kF32;
};

class ExpertExchangeTest : public ::testing::TestWithParam<Case> {
 protected:
  // Runs one call with `tokens[r]` tokens on rank r, whose choice j goes to expert_of(rank, token, j).
  void run(const std::vector<int64_t>& tokens, const std::function<int32_t(int32_t, int64_t, int32_t)>& expert_of) {
    const auto [ranks, activation] = GetParam();
    shape_ = shape_for(ranks);
    group_ = std::make_unique<GroupUnderTest>(
        CollectivesSpec{.kind = DeviceKind::kCpu, .ranks = ranks, .layers = 1, .pace = {}});
    const GroupLayout layout{Strategy::kDpEp, ranks};
    const int64_t chunk = ranks * *std::ranges::max_element(tokens);
    const std::vector<int32_t> owners = expert_owners(shape_, layout);
    std::vector<std::unique_ptr<RankUnderTest>> state(static_cast<size_t>(ranks));
    std::vector<std::unique_ptr<ExpertExchange>> exchanges(static_cast<size_t>(ranks));
    const auto thrown = group_->run([&](int32_t r) {
      const auto own = static_cast<size_t>(r);
      state[own] = std::make_unique<RankUnderTest>(shape_, activation, chunk);
      RankUnderTest& rank = *state[own];
      fill(rank, r, tokens[own], expert_of);
      exchanges[own] = std::make_unique<ExpertExchange>(
          ExpertExchange::Parts{*rank.device, *rank.ops, group_->collectives(r), shape_, owners}, chunk);
      const std::vector<Round> rounds = make_rounds({layout, r, tokens, chunk});
      ASSERT_EQ(rounds.size(), 1U);
      place(rank, rounds[0].own);
      std::vector<const std::byte*> held = rank.experts;
      for (size_t e = 0; e < held.size(); ++e)
        if (owners[e] != r) held[e] = nullptr;
      const Forward::Buffers buffers{{}, rank.normed.view(), rank.delta.view(), rank.ids.view(), rank.weights.view()};
      exchanges[own]->run(group_->stream(r), {0, &rounds[0], buffers, held});
      expect_result(rank, group_->stream(r), rounds[0].own);
    });
    EXPECT_EQ(thrown, std::vector<std::string>(static_cast<size_t>(ranks)));
  }

  [[nodiscard]] TrafficBytes activations(int32_t rank) const {
    return group_->collectives(rank).traffic().count(0, CollectiveKind::kAllToAll, TrafficUse::kActivations).bytes;
  }
  [[nodiscard]] TrafficBytes total(int32_t rank) const {
    return group_->collectives(rank).traffic().total(TrafficUse::kActivations).bytes;
  }

 private:
  static void fill(RankUnderTest& rank, int32_t r, int64_t tokens,
                   const std::function<int32_t(int32_t, int64_t, int32_t)>& expert_of) {
    std::mt19937 engine(static_cast<uint32_t>(100 + r));
    std::normal_distribution<float> normal(0.0F, 1.0F);
    const bool bf16 = rank.normed.dtype() == DType::kBf16;
    for (int64_t i = 0; i < tokens * kHidden; ++i) {
      const float value = normal(engine);
      if (bf16) {
        rank.normed.view().as<Bf16>()[i] = to_bf16(value);
      } else {
        rank.normed.view().as<float>()[i] = value;
      }
    }
    for (int64_t t = 0; t < tokens; ++t) {
      for (int32_t j = 0; j < kChosen; ++j) {
        rank.ids.view().as<int32_t>()[t * kChosen + j] = expert_of(r, t, j);
        rank.weights.view().as<float>()[t * kChosen + j] = 0.25F + 0.5F * static_cast<float>(j);
      }
    }
  }

  // Moves the rows from the buffers' beginning to where the round has this rank's.
  static void place(RankUnderTest& rank, const ChunkRows& own) {
    for (Tensor* tensor : {&rank.normed, &rank.ids, &rank.weights})
      std::memmove(tensor->view().rows(own.at, own.count).data(), tensor->view().data(),
                   tensor->view().rows(0, own.count).size_bytes());
  }

  // f32: the same bits as moe() on one rank, since rows travel unrounded and are summed in the same order. bf16: each
  // expert's result is rounded once more, by 2^-9 of itself, before it is weighted.
  static void expect_result(RankUnderTest& rank, Stream& stream, const ChunkRows& own) {
    const TensorView expected = rank.expected.view().rows(0, own.count);
    rank.ops->moe(stream, {.x = rank.normed.view().rows(own.at, own.count),
                           .ids = rank.ids.view().rows(own.at, own.count),
                           .weights = rank.weights.view().rows(own.at, own.count),
                           .experts = rank.experts,
                           .size = {kHidden, kIntermediate},
                           .out = expected});
    stream.synchronize();
    const TensorView delta = rank.delta.view().rows(own.at, own.count);
    double largest = 0;
    for (int64_t i = 0; i < expected.elements(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(expected.as<float>()[i])));
    const double tolerance = rank.normed.dtype() == DType::kBf16 ? 2 * kChosen * 0x1p-9 * largest : 0;
    for (int64_t i = 0; i < expected.elements(); ++i)
      ASSERT_NEAR(delta.as<float>()[i], expected.as<float>()[i], tolerance) << i;
  }

  ModelShape shape_;
  std::unique_ptr<GroupUnderTest> group_;
};

// Choice j of token t goes to rank (t + j) mod P: every rank sends the same number of rows to every rank. Then Table 1
// holds exactly: two all-to-alls of k rows a token, of which (P - 1) / P leave the device, each counted where it is
// sent and where it is received: 4 k (P - 1) / P * n * H * b with n tokens on the device.
TEST_P(ExpertExchangeTest, BalancedRoutingMovesWhatTable1Says) {
  const auto [ranks, activation] = GetParam();
  const int64_t tokens = int64_t{3} * ranks;
  run(std::vector<int64_t>(static_cast<size_t>(ranks), tokens),
      [ranks = ranks](int32_t, int64_t t, int32_t j) { return 2 * static_cast<int32_t>((t + j) % ranks) + j; });
  const int64_t table1 =
      4 * kChosen * (ranks - 1) * tokens / ranks * kHidden * static_cast<int64_t>(size_of(activation));
  for (int32_t r = 0; r < ranks; ++r) {
    EXPECT_EQ(activations(r).sent + activations(r).received, static_cast<uint64_t>(table1));
    EXPECT_EQ(activations(r).sent, activations(r).received);
    EXPECT_EQ(total(r), activations(r)) << "the exchange moves activations in no other way";
  }
}

// All tokens to rank 0's experts: it receives what the others send, and the others get their results back.
TEST_P(ExpertExchangeTest, ARankMayGetEverything) {
  const auto [ranks, activation] = GetParam();
  const std::vector<int64_t> tokens(static_cast<size_t>(ranks), 5);
  run(tokens, [](int32_t, int64_t, int32_t j) { return j; });
  const uint64_t rows_bytes = 5 * kChosen * kHidden * size_of(activation);
  EXPECT_EQ(activations(0).received, rows_bytes * static_cast<uint64_t>(ranks - 1));
  for (int32_t r = 1; r < ranks; ++r) EXPECT_EQ(activations(r), (TrafficBytes{rows_bytes, rows_bytes}));
}

TEST_P(ExpertExchangeTest, RanksMayHaveDifferentNumbersOfTokensOrNone) {
  const auto [ranks, activation] = GetParam();
  std::vector<int64_t> tokens;
  for (int32_t r = 0; r < ranks; ++r) tokens.push_back((r * 5 + 3) % 7);
  run(tokens, [ranks = ranks](int32_t r, int64_t t, int32_t j) {
    return static_cast<int32_t>((r * 3 + t * 5) % ranks) * 2 + static_cast<int32_t>((t + j) % 2);
  });
  uint64_t sent = 0;
  uint64_t received = 0;
  for (int32_t r = 0; r < ranks; ++r) {
    sent += activations(r).sent;
    received += activations(r).received;
  }
  EXPECT_EQ(sent, received);
}

INSTANTIATE_TEST_SUITE_P(Cases, ExpertExchangeTest,
                         ::testing::Values(Case{1}, Case{2}, Case{3}, Case{4}, Case{8}, Case{3, DType::kBf16},
                                           Case{4, DType::kBf16}),
                         [](const auto& test) {
                           return std::to_string(test.param.ranks) + "_" +
                                  std::string(to_string(test.param.activation));
                         });

}  // namespace
}  // namespace zp
