// An engine on paced ranks whose workload's lengths change: rates, T and gamma follow, and exposed time goes away.
#include <gtest/gtest.h>

#include "tests/engine/recorded_engine.h"
#include "zp/shape/flops.h"

namespace zp {
namespace {

using test::RecordedEngine;
using test::RecordedStep;

// 4K to 128K tokens, scaled down to what a small model knows: 32 times as long.
constexpr int32_t kShort = 16;
constexpr int32_t kLong = 512;
constexpr double kFlopsPerSecond = 10e9;
// On the modelled device attention is slow for its FLOPs on short sequences, as on real ones, only more so. What was
// measured on 32 tokens at the start overstates long requests by ten times.
constexpr int64_t kAttentionKeys = 1000;
// A layer's experts take as long to arrive as so many long requests take to compute.
constexpr int32_t kRequestsHidden = 5;

double long_layer_seconds(const ModelShape& shape) {
  const auto linear = static_cast<double>(linear_flops(shape, FeedForward::kMoe).total());
  const auto pair = static_cast<double>(attention_flops(shape, {.prefix = 0, .suffix = 1}));
  const double pairs = (kLong + 1) / 2.0 + kAttentionKeys;
  return kLong * (linear + pairs * pair) / kFlopsPerSecond;
}

EngineConfig paced_config() {
  EngineConfig config;
  config.model = std::filesystem::path(ZP_SOURCE_DIR) / "tests/data/models/moe_f32";
  config.threads = 1;
  config.compute = ComputeType::kF32;
  config.step_tokens = 64;
  config.max_step_tokens = 8192;
  config.chunk_tokens = 32;  // as many are measured at the start
  config.max_context_tokens = kLong;
  config.kv_cache_bytes = 0;
  config.max_pending_requests = 2000;
  config.experts.mode = ExpertMode::kHost;
  config.experts.below_threshold = BelowThreshold::kGatherAll;
  config.paced_flops_per_second = kFlopsPerSecond;
  const ModelFiles files(config.model);
  EngineConfig resident = config;
  resident.experts.mode = ExpertMode::kResident;
  const double bytes = static_cast<double>(make_setup(resident, files).blob_bytes) * files.shape().experts;
  config.experts.host_link.bytes_per_second =
      static_cast<uint64_t>(bytes / (kRequestsHidden * long_layer_seconds(files.shape())));
  return config;
}

// `count` requests that share nothing.
std::vector<std::vector<int32_t>> requests(int32_t count, int32_t tokens, int32_t vocabulary) {
  std::vector<std::vector<int32_t>> all;
  for (int32_t i = 0; i < count; ++i) {
    std::vector<int32_t>& ids = all.emplace_back();
    for (int32_t p = 0; p < tokens; ++p) ids.push_back((p * 31 + (p < 4 ? i >> (4 * p) : i)) % vocabulary);
  }
  return all;
}

double exposed_share(std::span<const RecordedStep> steps) {
  double exposed = 0;
  double seconds = 0;
  for (const RecordedStep& step : steps) {
    exposed += step.exposed_seconds;
    seconds += step.seconds;
  }
  return exposed / seconds;
}

struct Seen {
  SaturationStats at_start{}, after_short{}, after_long{};
  double exposed_short = 0;
  double exposed_first = 0;  // of the long requests' first steps, which were planned before any had run
  double exposed_later = 0;  // from the fifth step on
  size_t long_steps = 0;
};

Seen run(const EngineConfig& config, int32_t long_requests) {
  using namespace std::chrono_literals;
  RecordedEngine engine(config, [](EngineSetup& setup) {
    for (RankSpec& rank : setup.ranks) rank.ops.paced_attention_keys = kAttentionKeys;
  });
  const auto saturation = [&] { return *engine.dispatcher().stats().saturation; };
  Seen seen{.at_start = saturation(), .after_short = {}, .after_long = {}};
  const int32_t vocabulary = engine.shape().vocabulary;
  seen.exposed_short = exposed_share(engine.run(requests(500, kShort, vocabulary), 300ms).steps);
  seen.after_short = saturation();
  const std::vector<RecordedStep> steps = engine.run(requests(long_requests, kLong, vocabulary), 300ms).steps;
  seen.after_long = saturation();
  seen.long_steps = steps.size();
  const size_t first = std::min<size_t>(4, steps.size());
  seen.exposed_first = exposed_share(std::span(steps).first(first));
  seen.exposed_later =
      steps.size() > first + 1 ? exposed_share(std::span(steps).subspan(first, steps.size() - first - 1)) : 0;
  return seen;
}

TEST(Recalibration, LongerRequestsDoNotLeaveExposedTimeUnnoticed) {
  // The first of a few runs that nothing else on the machine has slowed down, or the last.
  constexpr int32_t kTries = 5;
  Seen seen;
  for (int32_t i = 0; i < kTries; ++i) {
    seen = run(paced_config(), 40);
    if (seen.exposed_short <= 0.1 && seen.exposed_later <= 0.05) break;
  }
  RecordProperty("exposed_first", std::to_string(seen.exposed_first));
  RecordProperty("exposed_later", std::to_string(seen.exposed_later));
  EXPECT_LE(seen.exposed_short, 0.1);
  EXPECT_GE(seen.exposed_first, 0.15) << "there is nothing to notice";
  EXPECT_LE(seen.exposed_later, 0.05);
  EXPECT_GT(seen.after_long.recalibrations, seen.after_short.recalibrations);
  // T is said for the lengths at hand, and attention is known to be as fast as it is there.
  EXPECT_NEAR(seen.after_long.context_tokens, kLong, 0.1 * kLong);
  EXPECT_GE(seen.after_long.attention_flops_per_second, 4 * seen.at_start.attention_flops_per_second);
}

// What the test above would see of an engine that stays as it was measured.
TEST(Recalibration, WithoutItExposedTimeStays) {
  EngineConfig config = paced_config();
  config.target.adapt = false;
  const Seen seen = run(config, 14);
  EXPECT_GE(seen.exposed_later, 0.3);
  EXPECT_EQ(seen.after_long.recalibrations, 0);
}

// The start found ranks ten times as fast as they are. So the target asks for ten times too many tokens, and
// max_step_tokens ends every step far below a quarter of it: rates, T and target must follow nevertheless.
TEST(Recalibration, AStartThatOverstatedRatesIsCorrectedAlthoughNoStepComesNearTheTarget) {
  constexpr double kTimes = 10;
  constexpr double kPace = 1e9;
  constexpr int32_t kTokensHidden = 192;  // take as long as the experts of one of the two streamed layers, of three
  constexpr int64_t kTokensMax = 256;
  EngineConfig config = paced_config();
  config.max_step_tokens = kTokensMax;
  config.max_context_tokens = kShort;  // T is said for such requests from the start
  config.paced_flops_per_second = kPace;
  const ModelFiles files(config.model);
  EngineConfig resident = config;
  resident.experts.mode = ExpertMode::kResident;
  const double bytes = static_cast<double>(make_setup(resident, files).blob_bytes) * files.shape().experts;
  const auto token_flops = static_cast<double>(linear_flops(files.shape(), FeedForward::kMoe).total());
  config.experts.host_link.bytes_per_second = static_cast<uint64_t>(bytes * kPace / (kTokensHidden * token_flops));
  const auto link = static_cast<double>(config.experts.host_link.bytes_per_second);
  RecordedEngine engine(config, [&](EngineSetup& setup) {
    for (RankSpec& rank : setup.ranks)
      rank.measured = {.rates = {.attention = kTimes * kPace, .dense = kTimes * kPace, .expert = kTimes * kPace},
                       .links = {.peer = 0, .host = link},
                       .step_seconds = 0};
  });
  const SaturationStats before = *engine.dispatcher().stats().saturation;
  ASSERT_GT(before.target.tokens, 4.0 * kTokensMax);
  const std::vector<RecordedStep> steps = engine.run(requests(300, kShort, files.shape().vocabulary), {}).steps;
  const SaturationStats after = *engine.dispatcher().stats().saturation;
  // Slower than the pace it may be, on a machine with other work; faster it cannot.
  EXPECT_LE(after.dense_flops_per_second, 1.1 * kPace);
  EXPECT_GE(after.dense_flops_per_second, 0.5 * kPace);
  EXPECT_LT(after.target.tokens, kTokensMax);
  // Steps are filled by the right target in the end; the last may be what was left.
  ASSERT_GE(steps.size(), 10U);
  EXPECT_EQ(steps.front().cost.tokens, kTokensMax);
  EXPECT_LT(steps[steps.size() - 2].cost.tokens, kTokensMax);
}

}  // namespace
}  // namespace zp
