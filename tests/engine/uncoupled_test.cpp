// Who slows whom, and when experts arrive in time: on paced ranks, as ratios of times taken in one run.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include "tests/engine/ranks_under_test.h"
#include "zp/shape/flops.h"

namespace zp {
namespace {

using test::RanksUnderTest;
using test::step_of;

constexpr double kLayerSeconds = 0.006;
constexpr int32_t kTokens = 40;

EngineConfig paced_config(int32_t ranks, ExpertMode mode) {
  EngineConfig config;
  config.model = std::filesystem::path(ZP_SOURCE_DIR) / "tests/data/models/moe_f32";
  config.threads = 1;
  config.compute = ComputeType::kF32;
  config.ranks = ranks;
  config.step_tokens = 400;
  config.chunk_tokens = 400;
  config.max_context_tokens = 200;
  config.kv_cache_bytes = 0;
  config.experts.mode = mode;
  config.experts.below_threshold = BelowThreshold::kGatherAll;  // what it costs, not what there is instead
  const ModelFiles files(config.model);
  // kTokens tokens of one layer take kLayerSeconds.
  const auto flops = static_cast<double>(linear_flops(files.shape(), FeedForward::kMoe).total() * kTokens +
                                         attention_flops(files.shape(), {.prefix = 0, .suffix = kTokens}));
  config.paced_flops_per_second = flops / kLayerSeconds;
  EngineConfig unlimited = config;
  unlimited.experts.mode = ExpertMode::kResident;
  const EngineSetup setup = make_setup(unlimited, files);
  // The experts of a layer that one of two ranks lacks (about half) arrive in half a layer's time.
  config.experts.peer_link.bytes_per_second =
      static_cast<uint64_t>(static_cast<double>(setup.blob_bytes) * 3.5 / (kLayerSeconds / 2));
  return config;
}

// A step of one sequence and one candidate, so that the head costs little.
ForwardStep paced_step(const ModelShape& shape, int32_t tokens) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < tokens; ++i) ids.push_back((i * 31 + 5) % shape.vocabulary);
  ForwardStep step = step_of(std::span(&ids, 1), 1);
  return step;
}

struct Taken {
  double seconds = 0;
  double exposed_seconds = 0;
  double peer_wait_seconds = 0;

  [[nodiscard]] double exposed_fraction() const { return exposed_seconds / seconds; }
};

// Runs steps back to back on one rank, as a scheduler with a full queue does.
Taken run_steps(RanksUnderTest& ranks, int32_t rank, int32_t count, int32_t tokens = kTokens) {
  ranks.start(rank, paced_step(ranks.shape(), tokens));
  Taken taken;
  for (int32_t i = 0; i < count; ++i) {
    if (i + 1 < count) ranks.start(rank, paced_step(ranks.shape(), tokens));
    const StepReport report = ranks.report(rank);
    if (report.failure) std::rethrow_exception(report.failure);
    taken.seconds += report.seconds;
    for (const LayerWait& wait : report.waits) {
      taken.exposed_seconds += static_cast<double>(wait.exposed_ns) * 1e-9;
      taken.peer_wait_seconds += static_cast<double>(wait.peer_wait_ns) * 1e-9;
    }
  }
  return taken;
}

// The quickest of a few runs: whatever else the machine does only makes them slower.
Taken quickest(RanksUnderTest& ranks, int32_t rank, int32_t count, int32_t tokens = kTokens) {
  Taken best = run_steps(ranks, rank, count, tokens);
  for (int32_t i = 0; i < 2; ++i) {
    const Taken next = run_steps(ranks, rank, count, tokens);
    if (next.seconds < best.seconds) best = next;
  }
  return best;
}

// What one rank's steps may take longer for reasons of the machine. One that waited for the other would take twice as
// long or more.
constexpr double kNoise = 1.5;

TEST(Uncoupled, ARankThatIsIdleBusyStalledOrDeadSlowsNoOther) {
  RanksUnderTest ranks(paced_config(2, ExpertMode::kGathered));
  const double idle = quickest(ranks, 0, 5).seconds;

  auto other = std::async(std::launch::async, [&] { return run_steps(ranks, 1, 20, 4 * kTokens).seconds; });
  const double busy = quickest(ranks, 0, 5).seconds;
  (void)other.get();
  EXPECT_LE(busy, idle * kNoise);
  EXPECT_GE(busy, idle / kNoise);

  Link& link = *ranks.setup().ranks[1].device.peer_link;
  link.stall();
  ranks.start(1, paced_step(ranks.shape(), kTokens));
  const double stalled = quickest(ranks, 0, 5).seconds;
  EXPECT_FALSE(ranks.has_report(1));
  EXPECT_LE(stalled, idle * kNoise);

  link.fail_after(0);
  link.resume();
  const StepReport report = ranks.report(1);
  ASSERT_TRUE(report.failure);
  const double dead = quickest(ranks, 0, 5).seconds;
  EXPECT_LE(dead, idle * kNoise);
}

TEST(ExposedTime, IsSmallAboveTheThresholdAndWhatTheLinkTakesBelowIt) {
  EngineConfig config = paced_config(2, ExpertMode::kGathered);
  config.experts.peer_link.bytes_per_second /= 2;  // a gather takes as long as a layer of kTokens
  RanksUnderTest ranks(config);
  const Taken above = quickest(ranks, 0, 4, 2 * kTokens);
  const Taken at = quickest(ranks, 0, 4, kTokens);
  const Taken below = quickest(ranks, 0, 4, kTokens / 8);
  RecordProperty("exposed_above", std::to_string(above.exposed_fraction()));
  RecordProperty("exposed_at", std::to_string(at.exposed_fraction()));
  RecordProperty("exposed_below", std::to_string(below.exposed_fraction()));
  EXPECT_LE(above.exposed_fraction(), 0.1);
  EXPECT_LE(at.exposed_fraction(), 0.25);
  EXPECT_GE(below.exposed_fraction(), 0.4);
  EXPECT_EQ(below.peer_wait_seconds, 0) << "with resident shards nobody waits for a rank";
}

TEST(Hybrid, RanksGoAtThePaceOfTheSlowestAndSayThatTheyWaitForIt) {
  EngineConfig config = paced_config(2, ExpertMode::kHybrid);
  const ModelFiles files(config.model);
  config.experts.rank_bytes = make_setup(paced_config(2, ExpertMode::kResident), files).blob_bytes * 7;
  config.experts.window = 2;
  RanksUnderTest ranks(config);
  const Taken alone = quickest(ranks, 0, 4);
  EXPECT_LE(alone.peer_wait_seconds, 0.2 * alone.seconds) << "an idle rank's streamer serves on";
  auto slow = std::async(std::launch::async, [&] { return run_steps(ranks, 1, 6, 4 * kTokens); });
  const Taken coupled = run_steps(ranks, 0, 12);
  (void)slow.get();
  EXPECT_GE(coupled.seconds / 12, 1.3 * alone.seconds / 4) << "it gets no further than the window ahead";
  EXPECT_GE(coupled.peer_wait_seconds, 0.15 * coupled.seconds);
  EXPECT_LE(coupled.peer_wait_seconds, coupled.exposed_seconds);
}

TEST(Hybrid, ADeadRankEndsTheStepsOfTheOthersWithItsName) {
  EngineConfig config = paced_config(2, ExpertMode::kHybrid);
  const ModelFiles files(config.model);
  config.experts.rank_bytes = make_setup(paced_config(2, ExpertMode::kResident), files).blob_bytes * 7;
  RanksUnderTest ranks(config);
  (void)run_steps(ranks, 0, 1);
  ranks.setup().ranks[1].device.peer_link->fail_after(0);
  // Its first layers have arrived already.
  bool failed = false;
  for (int32_t i = 0; i < 3 && !failed; ++i) {
    ranks.start(1, paced_step(ranks.shape(), kTokens));
    failed = ranks.report(1).failure != nullptr;
  }
  ASSERT_TRUE(failed);
  try {
    (void)run_steps(ranks, 0, 5);
    FAIL() << "rank 0 went on without rank 1";
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("rank 1"), std::string_view::npos) << error.what();
  }
}

}  // namespace
}  // namespace zp
