// Engines on two GPUs: wherever experts live, the answers have the bits that one GPU with all experts gives. Skips with
// fewer.
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "zeroprefill/engine.h"
#include "zp/device/factory.h"

namespace zp {
namespace {

std::filesystem::path root() {
  const std::filesystem::path built_from = ZP_SOURCE_DIR;
  return std::filesystem::exists(built_from / "models") ? built_from : std::filesystem::current_path();
}

class TwoGpusEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      for (int32_t index = 0; index < 2; ++index) (void)make_device({.kind = DeviceKind::kCuda, .index = index});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }
};

EngineConfig base() {
  EngineConfig config;
  config.model = root() / "models/demo-moe";
  config.device = "cuda";
  config.compute = ComputeType::kBf16;
  config.kv_cache_bytes = uint64_t{16} << 20;
  config.step_tokens = 512;
  return config;
}

// Bits of the answers, in the order of the requests; and checks that no step of the second half of them allocates.
std::vector<uint32_t> run(const EngineConfig& config) {
  const auto engine = Engine::create(config);
  std::mutex mutex;
  std::map<uint64_t, std::vector<uint32_t>> answers;
  const auto submit = [&](int32_t from, int32_t to) {
    for (int32_t i = from; i < to; ++i) {
      std::vector<int32_t> ids(static_cast<size_t>(20 + i * 37 % 300));
      for (size_t t = 0; t < ids.size(); ++t)
        ids[t] = static_cast<int32_t>(5 + (t * 131 + static_cast<size_t>(i) * 17) % 4000);
      Request request;
      request.context = std::move(ids);
      for (int32_t id = 7; id < 4000; id += 61) request.candidates.emplace_back(id);
      (void)engine->submit(request, [&](uint64_t id, Outcome outcome) {
        const std::lock_guard lock(mutex);
        if (const auto* failure = std::get_if<Failure>(&outcome)) ADD_FAILURE() << failure->message;
        if (const auto* answer = std::get_if<Answer>(&outcome)) {
          for (const float logit : answer->logits) answers[id].push_back(std::bit_cast<uint32_t>(logit));
          answers[id].push_back(std::bit_cast<uint32_t>(static_cast<float>(answer->log_sum_exp)));
        }
      });
    }
    engine->drain();
  };
  const EngineStats before = engine->stats();
  submit(0, 60);
  submit(60, 120);
  const EngineStats after = engine->stats();
  for (size_t r = 0; r < after.ranks.size(); ++r) {
    EXPECT_GT(after.ranks[r].steps, 0) << "rank " << r;
    EXPECT_EQ(after.ranks[r].allocations, before.ranks[r].allocations) << "rank " << r;
  }
  std::vector<uint32_t> bits;
  for (const auto& [id, some] : answers) bits.insert(bits.end(), some.begin(), some.end());
  return bits;
}

TEST_F(TwoGpusEngine, GiveTheBitsOfOneGpuWhereverExpertsLive) {
  const std::vector<uint32_t> expected = run(base());
  ASSERT_FALSE(expected.empty());
  std::map<std::string, EngineConfig> others;
  const auto add = [&](const std::string& name, ExpertMode mode) -> EngineConfig& {
    EngineConfig& config = others[name];
    config = base();
    config.ranks = 2;
    config.experts.mode = mode;
    return config;
  };
  add("resident", ExpertMode::kResident);
  add("gathered", ExpertMode::kGathered);
  add("gathered, all", ExpertMode::kGathered).experts.below_threshold = BelowThreshold::kGatherAll;
  add("gathered, routed", ExpertMode::kGathered).experts.below_threshold = BelowThreshold::kFetchRouted;
  add("gathered, sent", ExpertMode::kGathered).experts.below_threshold = BelowThreshold::kSendActivations;
  add("gathered, small slices", ExpertMode::kGathered).experts.slice_bytes = 4096;
  add("host", ExpertMode::kHost);
  add("hybrid", ExpertMode::kHybrid).experts.rank_bytes = uint64_t{5} << 20;
  for (const auto& [name, config] : others) EXPECT_TRUE(run(config) == expected) << name;
}

}  // namespace
}  // namespace zp
