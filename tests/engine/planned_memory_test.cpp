// What an engine plans for is what its parts allocate: never less, and hardly more.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "zp/cache/block_hash.h"
#include "zp/device/cpu/cpu_device.h"
#include "zp/engine/rank_group.h"
#include "zp/engine/setup.h"
#include "zp/model/forward.h"
#include "zp/model/kv_pool.h"

namespace zp {
namespace {

using BytesOf = std::map<std::string, uint64_t>;

// Nothing that is planned by counting what is allocated may be off by more than padding.
constexpr double kShareMax = 1.03;

size_t allocated(const Device& device, MemoryKind kind = MemoryKind::kDevice) { return device.allocated_bytes(kind); }

BytesOf as_map(const MemoryPlan& plan) {
  BytesOf bytes;
  for (const MemoryItem& item : plan.items) bytes[item.consumer] = item.bytes;
  return bytes;
}

// Bytes that `make` leaves allocated on a device. What it makes lives until the end of the measurement.
template <typename Make>
uint64_t bytes_of(const Device& device, Make&& make) {
  const size_t before = allocated(device);
  const auto made = make();
  return allocated(device) - before;
}

// Adds what one rank of a loaded group allocates, taking the larger where another rank has been added before.
void add_rank(const EngineSetup& setup, const ModelFiles& files, RankGroup& group, int32_t rank, BytesOf& bytes) {
  const RankSpec& spec = setup.ranks[static_cast<size_t>(rank)];
  RankGroup::Loaded& loaded = group.rank(rank);
  const auto add = [&](const std::string& consumer, uint64_t found) {
    bytes[consumer] = std::max(bytes[consumer], found);
  };
  // Loaded once more elsewhere, since a group loads all at once.
  cpu::CpuDevice other(0, spec.device.threads);
  std::unique_ptr<Ops> ops = make_ops(other, spec.ops);
  const uint64_t scratch = allocated(other);
  const ModelWeights weights = load_weights(files, other, *ops);
  const uint64_t replicated = allocated(other) - scratch;
  uint64_t experts = setup.placement.experts_on(rank).size() * setup.blob_bytes;
  add("scratch of operations", scratch);
  add("replicated weights", replicated);
  add("experts", experts);
  add("window for experts", allocated(*loaded.device) - scratch - replicated - experts);

  const std::unique_ptr<StepExperts> source = [&] {
    const size_t before = allocated(*loaded.device);
    std::unique_ptr<StepExperts> made = group.make_experts(rank);
    add("slots for experts", allocated(*loaded.device) - before);
    return made;
  }();
  const DType type = *spec.ops.activation;
  add("kept keys and values", bytes_of(*loaded.device, [&] {
        return std::make_unique<KvPool>(*loaded.device, files.shape(), type, kBlockTokens, spec.kv_blocks);
      }));
  KvPool none(*loaded.device, files.shape(), type, kBlockTokens, 0);
  add("activations", bytes_of(*loaded.device, [&] {
        return std::make_unique<Forward>(
            Forward::Parts{*loaded.device, *loaded.ops, files.shape(), loaded.weights, *source, none}, spec.limits);
      }));
}

struct Case {
  const char* name;
  const char* model;
  ExpertMode mode;
  int32_t ranks;
  int64_t kept_experts;  // on each rank; 0: as many as fit
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest finds it by this name
void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

class PlannedMemory : public ::testing::TestWithParam<Case> {};

TEST_P(PlannedMemory, IsWhatIsAllocated) {
  const Case& c = GetParam();
  EngineConfig config;
  config.model = std::filesystem::path(ZP_SOURCE_DIR) / c.model;
  config.ranks = c.ranks;
  config.threads = 2 * c.ranks;
  config.kv_cache_bytes = uint64_t{3} << 20;
  config.experts.mode = c.mode;
  config.experts.slots = 3;
  config.experts.below_threshold = BelowThreshold::kGatherAll;  // for what sending takes, see below
  const ModelFiles files(config.model);
  if (c.kept_experts > 0)
    config.experts.rank_bytes = static_cast<uint64_t>(c.kept_experts) * make_setup(config, files).blob_bytes;
  const EngineSetup setup = make_setup(config, files);
  const BytesOf planned = as_map(setup.memory.rank);

  BytesOf found;
  RankGroup group(setup, files);
  uint64_t on_host = 0;
  for (int32_t rank = 0; rank < c.ranks; ++rank) {
    on_host += allocated(*group.rank(rank).device, MemoryKind::kPinnedHost);
    add_rank(setup, files, group, rank, found);
  }
  for (const auto& [consumer, bytes] : found) {
    SCOPED_TRACE(consumer);
    if (!planned.contains(consumer)) {
      EXPECT_EQ(bytes, 0U) << "not in the plan";
      continue;
    }
    EXPECT_LE(bytes, planned.at(consumer));
    EXPECT_GE(static_cast<double>(bytes) * kShareMax, static_cast<double>(planned.at(consumer)));
  }
  for (const auto& [consumer, bytes] : planned) EXPECT_TRUE(found.contains(consumer)) << consumer << " is not measured";
  BytesOf host = as_map(setup.memory.host);
  EXPECT_EQ(on_host, host["experts in host memory"] + host["metadata of operations"]);
}

// Servers and senders, together with all that a rank has before its first step.
TEST(PlannedMemoryOfSending, IsWhatIsAllocated) {
  EngineConfig config;
  config.model = std::filesystem::path(ZP_SOURCE_DIR) / "models/demo-moe";
  config.ranks = 3;
  config.threads = 3;
  config.kv_cache_bytes = 0;
  config.experts.mode = ExpertMode::kGathered;
  config.experts.below_threshold = BelowThreshold::kSendActivations;
  const ModelFiles files(config.model);
  const EngineSetup setup = make_setup(config, files);
  BytesOf planned = as_map(setup.memory.rank);
  ASSERT_GT(planned["activations sent to experts"], 0U);
  planned.erase("activations");
  uint64_t total = 0;
  for (const auto& [consumer, bytes] : planned) total += bytes;

  RankGroup group(setup, files);
  uint64_t found = 0;
  for (int32_t rank = 0; rank < config.ranks; ++rank) {
    const auto experts = group.make_experts(rank);
    found = std::max(found, allocated(*group.rank(rank).device));
  }
  EXPECT_LE(found, total);
  EXPECT_GE(static_cast<double>(found) * kShareMax, static_cast<double>(total));
}

constexpr const char* kDemo = "models/demo-moe";
constexpr const char* kMixed = "tests/data/models/mixed_layers_bf16";  // dense layers among sparse ones
constexpr const char* kF32 = "tests/data/models/moe_f32";

INSTANTIATE_TEST_SUITE_P(Modes, PlannedMemory,
                         ::testing::Values(Case{"Resident", kDemo, ExpertMode::kResident, 1, 0},
                                           Case{"ResidentMixed", kMixed, ExpertMode::kResident, 1, 0},
                                           Case{"ResidentF32", kF32, ExpertMode::kResident, 2, 0},
                                           Case{"Gathered", kDemo, ExpertMode::kGathered, 3, 0},
                                           Case{"Host", kDemo, ExpertMode::kHost, 1, 0},
                                           Case{"Hybrid", kDemo, ExpertMode::kHybrid, 3, 13}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace zp
