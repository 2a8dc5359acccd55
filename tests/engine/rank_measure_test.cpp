// What is measured at the start, on paced ranks whose rates are known.
#include "zp/engine/rank_measure.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/engine/recorded_engine.h"

namespace zp {
namespace {

using test::RecordedEngine;

constexpr double kFlops = 2e9;
constexpr double kPeerRate = 30e6;
constexpr double kHostRate = 20e6;

EngineConfig paced_config(int32_t ranks, ExpertMode mode) {
  EngineConfig config;
  config.model = std::filesystem::path(ZP_SOURCE_DIR) / "models/demo-moe";
  config.threads = ranks;
  config.compute = ComputeType::kF32;
  config.ranks = ranks;
  config.step_tokens = 64;
  config.max_context_tokens = 128;
  config.kv_cache_bytes = 0;
  config.experts.mode = mode;
  config.experts.below_threshold = BelowThreshold::kGatherAll;
  config.paced_flops_per_second = kFlops;
  config.experts.peer_link.bytes_per_second = static_cast<uint64_t>(kPeerRate);
  config.experts.host_link.bytes_per_second = static_cast<uint64_t>(kHostRate);
  return config;
}

constexpr double kSlowest = 0.85;  // of the pace

// A paced rank is never faster than its pace, but for what a waking thread makes up; on a busy machine it is slower.
void expect_rate(double measured, double rate) {
  EXPECT_LE(measured, 1.05 * rate);
  EXPECT_GE(measured, kSlowest * rate);
}

// The first of a few engines that nothing else on the machine has slowed down, or the last.
std::unique_ptr<const RecordedEngine> measured_engine(const EngineConfig& config) {
  constexpr int32_t kTries = 12;
  const auto slow = [](double measured, double rate) { return measured > 0 && measured < kSlowest * rate; };
  std::unique_ptr<const RecordedEngine> engine;
  for (int32_t i = 0; i < kTries; ++i) {
    engine = std::make_unique<const RecordedEngine>(config);
    const SaturationStats s = *engine->dispatcher().stats().saturation;
    if (!slow(s.attention_flops_per_second, kFlops) && !slow(s.dense_flops_per_second, kFlops) &&
        !slow(s.expert_flops_per_second, kFlops) && !slow(s.peer_bytes_per_second, kPeerRate) &&
        !slow(s.host_bytes_per_second, kHostRate))
      break;
  }
  return engine;
}

void expect_paced(const SaturationStats& s) {
  expect_rate(s.attention_flops_per_second, kFlops);
  expect_rate(s.dense_flops_per_second, kFlops);
  expect_rate(s.expert_flops_per_second, kFlops);
}

TEST(MeasuredRank, WithAllExpertsOnlyComputes) {
  const auto engine = measured_engine(paced_config(1, ExpertMode::kResident));
  const SaturationStats s = *engine->dispatcher().stats().saturation;
  expect_paced(s);
  EXPECT_EQ(s.peer_bytes_per_second, 0);
  EXPECT_EQ(s.host_bytes_per_second, 0);
  EXPECT_EQ(s.transfer_seconds, 0);
  EXPECT_EQ(s.threshold.flops, 0);
  EXPECT_NEAR(s.target.tokens, 64, 1e-6) << "of an efficient step";
}

// 8 experts of a layer, of which two ranks have half each.
TEST(MeasuredRank, ThatGathersTimesTheLinkToTheOthers) {
  const auto engine = measured_engine(paced_config(2, ExpertMode::kGathered));
  const SaturationStats s = *engine->dispatcher().stats().saturation;
  expect_paced(s);
  expect_rate(s.peer_bytes_per_second, kPeerRate);
  EXPECT_EQ(s.host_bytes_per_second, 0);
  const double seconds = 4 * static_cast<double>(engine->setup().blob_bytes) / s.peer_bytes_per_second;
  EXPECT_NEAR(s.transfer_seconds, seconds, 1e-9);
  EXPECT_NEAR(s.threshold.milliseconds, 1.2e3 * seconds, 1e-6);
}

// Every rank by itself brings in all 8; of 6 layers the first is complete, so a window of 4 has 4 others.
TEST(MeasuredRank, ThatStreamsTimesTheLinkToTheHost) {
  const auto engine = measured_engine(paced_config(2, ExpertMode::kHost));
  const SaturationStats s = *engine->dispatcher().stats().saturation;
  expect_paced(s);
  expect_rate(s.host_bytes_per_second, kHostRate);
  EXPECT_EQ(s.peer_bytes_per_second, 0);
  EXPECT_NEAR(s.transfer_seconds, 8 * static_cast<double>(engine->setup().blob_bytes) / s.host_bytes_per_second, 1e-9);
}

// The first layer and nothing else on ranks: each brings half of the 8 in over its own host link, and pulls the other
// half from its peer; the slower of both decides.
TEST(MeasuredRank, InHybridModeTimesBoth) {
  EngineConfig config = paced_config(2, ExpertMode::kHybrid);
  const ModelFiles files(config.model);
  config.experts.rank_bytes = 8 * make_setup(paced_config(2, ExpertMode::kResident), files).blob_bytes;
  const auto engine = measured_engine(config);
  const SaturationStats s = *engine->dispatcher().stats().saturation;
  expect_paced(s);
  expect_rate(s.peer_bytes_per_second, kPeerRate);
  expect_rate(s.host_bytes_per_second, kHostRate);
  EXPECT_NEAR(s.transfer_seconds, 4 * static_cast<double>(engine->setup().blob_bytes) / s.host_bytes_per_second, 1e-9);
}

}  // namespace
}  // namespace zp
