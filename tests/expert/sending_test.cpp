// Activations sent to the owners of experts come back as Ops::moe() has them, bit for bit; failures have names.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <random>

#include "tests/support/errors.h"
#include "zp/base/error.h"
#include "zp/device/factory.h"
#include "zp/expert/activation_sender.h"
#include "zp/expert/expert_server.h"
#include "zp/ops/factory.h"
#include "zp/tensor/convert.h"

namespace zp {
namespace {

constexpr int32_t kExperts = 7;
constexpr int64_t kChosen = 3;
constexpr ExpertSize kSize{.hidden = 40, .intermediate = 24};

ModelShape shape_of() {
  ModelShape shape;
  shape.layers = 3;
  shape.experts = kExperts;
  shape.feed_forward.assign(3, FeedForward::kMoe);
  return shape;
}

// Ranks with random experts in gathered placing, their servers, and a sender on rank 0.
class SendingRanks final {
 public:
  SendingRanks(int32_t ranks, DType activation, int64_t job_rows, int64_t tokens)
      : placement_(shape_of(), {.ranks = ranks, .placing = Placing::kGathered, .blob_bytes = 1}) {
    const OpsSpec spec{.activation = activation,
                       .limits = {.moe_tokens = tokens,
                                  .experts_per_token = kChosen,
                                  .experts = kExperts,
                                  .expert = kSize,
                                  .linear_k = kSize.hidden}};
    OpsSpec server_spec = spec;
    server_spec.limits.moe_tokens = job_rows;
    server_spec.limits.experts_per_token = 1;
    std::vector<std::shared_ptr<const ExpertPeer>> shards;
    for (int32_t r = 0; r < ranks; ++r) {
      // Slow enough that whoever reads too early, or writes too early, is found out.
      links_.push_back(std::make_shared<Link>(
          LinkSpec{.name = "the peer link of rank " + std::to_string(r), .latency_ns = 200'000}));
      devices_.push_back(
          make_device({.kind = DeviceKind::kCpu, .index = r, .threads = 1 + r, .peer_link = links_.back()}));
      ops_.push_back(make_ops(*devices_.back(), spec));
      server_ops_.push_back(make_ops(*devices_.back(), server_spec));
      shards.push_back(std::make_shared<ExpertStore>(*devices_.back(), MemoryKind::kDevice, placement_.experts_on(r),
                                                     packing(*ops_.back())));
    }
    std::vector<ExpertId> every;
    for (int32_t l = 0; l < 3; ++l)
      for (int32_t e = 0; e < kExperts; ++e) every.push_back({l, e});
    all_ = std::make_unique<ExpertStore>(*devices_[0], MemoryKind::kDevice, every, packing(*ops_[0]));
    cluster_ = std::make_unique<ExpertCluster>(
        ExpertCluster::Parts{placement_, ops_[0]->expert_blob_bytes(kSize), std::move(shards), nullptr});
    std::vector<ExpertServer*> servers;
    for (size_t r = 0; r < devices_.size(); ++r) {
      servers_.push_back(std::make_unique<ExpertServer>(ExpertServer::Parts{*cluster_, *devices_[r], *server_ops_[r]},
                                                        ExpertServerSpec{static_cast<int32_t>(r), job_rows, kSize}));
      servers.push_back(servers_.back().get());
    }
    sender_ = std::make_unique<ActivationSender>(
        ActivationSender::Parts{*cluster_, *devices_[0], *ops_[0], std::move(servers)},
        ActivationSenderSpec{.rank = 0, .tokens = tokens, .experts_per_token = kChosen, .size = kSize});
    stream_ = devices_[0]->create_stream("compute");
  }

  /// Rows that are routed by `ids`, and what the experts make of them.
  struct Rows {
    std::vector<float> x;  // [n, H]
    std::vector<int32_t> ids;
    std::vector<float> weights;
    std::vector<std::byte> typed;  // x in type A
  };
  Rows rows_of(std::vector<int32_t> ids) const {
    Rows rows{.x = {}, .ids = std::move(ids), .weights = {}, .typed = {}};
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    const auto tokens = static_cast<int64_t>(rows.ids.size()) / kChosen;
    for (int64_t i = 0; i < tokens * kSize.hidden; ++i) rows.x.push_back(normal(random));
    for (size_t i = 0; i < rows.ids.size(); ++i) rows.weights.push_back(0.1F + 0.1F * static_cast<float>(i % 5));
    const DType type = ops_[0]->activation_dtype();
    rows.typed.resize(rows.x.size() * size_of(type));
    for (size_t i = 0; i < rows.x.size(); ++i) {
      if (type == DType::kF32) {
        std::memcpy(rows.typed.data() + i * 4, &rows.x[i], 4);
      } else {
        const auto high = static_cast<uint16_t>(std::bit_cast<uint32_t>(rows.x[i]) >> 16U);
        std::memcpy(rows.typed.data() + i * 2, &high, 2);
      }
    }
    return rows;
  }
  std::vector<float> send(int32_t layer, const Rows& rows) {
    std::vector<float> out(rows.x.size());
    const MoeRows moe = moe_rows(rows, out);
    sender_->begin_layer(*stream_, layer, moe);
    sender_->finish_layer(*stream_, layer, moe);
    stream_->synchronize();
    return out;
  }
  std::vector<float> compute_here(int32_t layer, const Rows& rows) {
    std::vector<float> out(rows.x.size());
    const MoeRows moe = moe_rows(rows, out);
    std::vector<const std::byte*> blobs;
    for (int32_t e = 0; e < kExperts; ++e) blobs.push_back(all_->address({layer, e}));
    ops_[0]->moe(*stream_,
                 {.x = moe.x, .ids = moe.ids, .weights = moe.weights, .experts = blobs, .size = kSize, .out = moe.out});
    stream_->synchronize();
    return out;
  }
  ActivationSender& sender() { return *sender_; }
  ExpertServer& server(size_t rank) { return *servers_.at(rank); }
  Link& link(size_t rank) { return *links_.at(rank); }

 private:
  MoeRows moe_rows(const Rows& rows, std::vector<float>& out) const {
    const auto n = static_cast<int64_t>(rows.ids.size()) / kChosen;
    return {.x = {rows.typed.data(), ops_[0]->activation_dtype(), {n, kSize.hidden}},
            .ids = view_of(rows.ids.data(), {n, kChosen}),
            .weights = view_of(rows.weights.data(), {n, kChosen}),
            .out = view_of(out.data(), {n, kSize.hidden})};
  }
  static ExpertPacking packing(const Ops& ops) {
    return {.blob_bytes = ops.expert_blob_bytes(kSize),
            .read =
                [&ops](ExpertId id, std::span<std::byte> blob) {
                  std::mt19937 random(static_cast<uint32_t>(id.layer * 100 + id.expert));
                  std::normal_distribution<float> normal(0, 0.2F);
                  std::vector<float> weights(static_cast<size_t>(3 * kSize.hidden * kSize.intermediate));
                  for (float& weight : weights) weight = normal(random);
                  const float* data = weights.data();
                  const int64_t part = kSize.hidden * kSize.intermediate;
                  ops.pack_expert(view_of(data, {kSize.intermediate, kSize.hidden}),
                                  view_of(data + part, {kSize.intermediate, kSize.hidden}),
                                  view_of(data + 2 * part, {kSize.hidden, kSize.intermediate}), blob);
                },
            .threads = 1};
  }

  Placement placement_;
  std::vector<std::shared_ptr<Link>> links_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Ops>> ops_;
  std::vector<std::unique_ptr<Ops>> server_ops_;
  std::unique_ptr<ExpertStore> all_;
  std::unique_ptr<ExpertCluster> cluster_;
  std::vector<std::unique_ptr<ExpertServer>> servers_;
  std::unique_ptr<ActivationSender> sender_;
  std::unique_ptr<Stream> stream_;
};

std::vector<int32_t> random_ids(int64_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<int32_t> order(kExperts);
    for (int32_t e = 0; e < kExperts; ++e) order[static_cast<size_t>(e)] = e;
    std::ranges::shuffle(order, random);
    ids.insert(ids.end(), order.begin(), order.begin() + kChosen);
  }
  return ids;
}

class SendingTest : public ::testing::TestWithParam<std::tuple<DType, int32_t /*ranks*/, int64_t /*job_rows*/>> {};

TEST_P(SendingTest, ResultsHaveTheBitsOfComputingHere) {
  const auto& [type, ranks, job_rows] = GetParam();
  SendingRanks all(ranks, type, job_rows, 40);
  for (int32_t round = 0; round < 2; ++round)
    for (const int64_t tokens : {1, 7, 40})
      for (const int32_t layer : {1, 2}) {
        const auto rows = all.rows_of(random_ids(tokens, static_cast<uint32_t>(tokens + layer)));
        EXPECT_EQ(all.send(layer, rows), all.compute_here(layer, rows)) << tokens << " tokens, layer " << layer;
      }
  // All tokens to the same experts: some ranks get everything, others nothing.
  std::vector<int32_t> same;
  for (int32_t t = 0; t < 20; ++t) same.insert(same.end(), {5, 0, 2});
  const auto rows = all.rows_of(same);
  EXPECT_EQ(all.send(1, rows), all.compute_here(1, rows));
  EXPECT_EQ(all.sender().take_waits().size(), 2U * (2 * 3 * 2 + 1));
}

INSTANTIATE_TEST_SUITE_P(All, SendingTest,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kBf16), ::testing::Values(2, 3, 5),
                                            ::testing::Values(4, 200)),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) +
                                  std::to_string(std::get<1>(test.param)) + "Ranks" +
                                  std::to_string(std::get<2>(test.param)) + "Rows";
                         });

TEST(Sending, ARankThatHasFailedRefusesJobsByName) {
  SendingRanks all(3, DType::kF32, 100, 20);
  EXPECT_TRUE(all.sender().owners_are_alive());
  all.server(2).abandon(std::make_exception_ptr(Error(ErrorCode::kDevice, "its memory is broken")));
  EXPECT_FALSE(all.sender().owners_are_alive());
  const auto rows = all.rows_of(random_ids(20, 1));
  test::expect_error([&] { (void)all.send(1, rows); }, ErrorCode::kDevice, {"rank 2", "its memory is broken"});
}

TEST(Sending, ALinkThatFailsOnTheWayIsNamedAndNobodyHangs) {
  SendingRanks all(3, DType::kF32, 4, 20);
  const auto rows = all.rows_of(random_ids(20, 1));
  EXPECT_EQ(all.send(1, rows), all.compute_here(1, rows));
  all.link(1).fail_after(3);
  test::expect_error([&] { (void)all.send(2, rows); }, ErrorCode::kDevice, {"the peer link of rank 1"});
}

}  // namespace
}  // namespace zp
