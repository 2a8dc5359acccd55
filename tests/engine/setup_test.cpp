// Which configurations are refused, and what is named.
#include "zp/engine/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "zp/engine/intake.h"

namespace zp {
namespace {

using test::expect_error;

const std::filesystem::path kModel = std::filesystem::path(ZP_SOURCE_DIR) / "models/demo-moe";

EngineConfig config_of_demo() {
  EngineConfig config;
  config.model = kModel;
  return config;
}

TEST(EngineConfig, NamesEveryProblemAtOnce) {
  EngineConfig config;
  config.threads = -1;
  config.step_tokens = 0;
  config.chunk_tokens = 0;
  config.max_pending_requests = 0;
  const auto problems = validate(config);
  EXPECT_THAT(problems, ::testing::SizeIs(5));
  EXPECT_THAT(problems, ::testing::Contains(::testing::HasSubstr("step_tokens is 0")));
  EXPECT_THAT(validate(config_of_demo()), ::testing::IsEmpty());
}

TEST(EngineSetup, ReadsDevices) {
  EXPECT_EQ(parse_device("cpu").kind, DeviceKind::kCpu);
  EXPECT_EQ(parse_device("cuda").kind, DeviceKind::kCuda);
  EXPECT_EQ(parse_device("cuda:3").index, 3);
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x"})
    expect_error([&] { (void)parse_device(text); }, ErrorCode::kInvalidArgument, {text, "cuda:N"});
}

TEST(EngineSetup, RefusesContextsLongerThanTheModelWasMadeFor) {
  const ModelFiles files(kModel);
  EngineConfig config = config_of_demo();
  config.max_context_tokens = 2049;
  expect_error([&] { (void)make_setup(config, files); }, ErrorCode::kInvalidArgument, {"2049", "2048"});
}

TEST(EngineSetup, RefusesMoreTokensThanTheDeviceTakesByValueAndLimit) {
  const OpsTokenLimits most{.sequence = 5000, .step = 6000};
  ForwardLimits limits;
  limits.tokens = 6000;
  require_token_limits(limits, 5000, most);
  expect_error([&] { require_token_limits(limits, 5001, most); }, ErrorCode::kInvalidArgument,
               {"5001", "5000", "max_context_tokens"});
  limits.tokens = 6001;
  expect_error([&] { require_token_limits(limits, 5000, most); }, ErrorCode::kInvalidArgument,
               {"6001", "6000", "max_step_tokens"});
}

TEST(EngineSetup, RefusesWhatDoesNotFitWithTheNumbers) {
  const ModelFiles files(kModel);
  EngineConfig config = config_of_demo();
  config.memory_limit_bytes = 1 << 20;
  expect_error([&] { (void)make_setup(config, files); }, ErrorCode::kOutOfMemory,
               {"experts", "activations", "1.00 MiB", "the given memory limit"});
}

TEST(EngineSetup, KeepsNoKeysAndValuesWhenToldSo) {
  const ModelFiles files(kModel);
  EngineConfig config = config_of_demo();
  config.kv_cache_bytes = 0;
  EXPECT_EQ(make_setup(config, files).ranks[0].kv_blocks, 0);
  // 6 layers x (k and v) x 16 tokens x 2 heads x 32 x 2 or 4 bytes.
  config.compute = ComputeType::kF32;
  config.kv_cache_bytes = uint64_t{10} * 6 * 2 * 16 * 2 * 32 * 4 + 1;
  EXPECT_EQ(make_setup(config, files).ranks[0].kv_blocks, 10);
}

TEST(EngineSetup, RefusesNonsenseAboutRanksAndExpertsByValueAndLimit) {
  EngineConfig config = config_of_demo();
  config.ranks = 1025;
  config.experts.slots = 1;
  config.experts.window = 0;
  config.experts.slice_bytes = 0;
  config.experts.peer_link.latency_us = -1;
  config.paced_flops_per_second = -1;
  const auto problems = validate(config);
  EXPECT_THAT(problems, ::testing::SizeIs(6));
  EXPECT_THAT(problems, ::testing::Contains(::testing::HasSubstr("ranks is 1025; it must lie in [1, 1024]")));
  EXPECT_THAT(problems, ::testing::Contains(::testing::HasSubstr("experts.slots is 1; it must lie in [2, 64]")));
  config = config_of_demo();
  config.device = "cuda";
  config.experts.host_link.bytes_per_second = 1;
  config.paced_flops_per_second = 1e6;
  EXPECT_THAT(validate(config), ::testing::SizeIs(2));
  config = config_of_demo();
  config.paced_flops_per_second = 1e6;
  EXPECT_THAT(validate(config), ::testing::IsEmpty());
  config.paced_flops_per_second = 999'999;
  EXPECT_THAT(validate(config),
              ::testing::ElementsAre("paced_flops_per_second is 999999; it must be 0 or lie in [1e6, 1e18]"));
}

// 8 experts in 6 layers: the first layer on each rank, the rest spread.
TEST(EngineSetup, PlansCountShardsSlotsWindowAndHostMemory) {
  const ModelFiles files(kModel);
  EngineConfig config = config_of_demo();
  config.kv_cache_bytes = 0;
  const auto bytes_of = [](const MemoryPlan& plan, std::string_view consumer) -> uint64_t {
    for (const MemoryItem& item : plan.items)
      if (item.consumer == consumer) return item.bytes;
    return 0;
  };
  const auto has = [&](const MemoryPlan& plan, std::string_view consumer) { return bytes_of(plan, consumer) > 0; };
  config.experts.mode = ExpertMode::kResident;
  const EngineSetup resident = make_setup(config, files);
  const uint64_t blob = resident.blob_bytes;
  EXPECT_EQ(bytes_of(resident.memory.rank, "experts"), 48 * blob);
  EXPECT_EQ(bytes_of(resident.memory.rank, "slots for experts"), 0U);

  config.ranks = 4;
  config.experts.mode = ExpertMode::kGathered;
  config.experts.slots = 3;
  const EngineSetup gathered = make_setup(config, files);
  EXPECT_EQ(gathered.ranks.size(), 4U);
  EXPECT_EQ(gathered.scheduler.ranks(), 4);
  EXPECT_EQ(bytes_of(gathered.memory.rank, "experts"), (8 + 10) * blob);
  EXPECT_EQ(bytes_of(gathered.memory.rank, "slots for experts"), 3 * 6 * blob);
  EXPECT_TRUE(!has(gathered.memory.host, "experts in host memory"));
  EXPECT_EQ(rank_failure(gathered), RankFailure::kOthersGoOn);

  config.experts.mode = ExpertMode::kHybrid;
  config.experts.window = 5;
  config.experts.rank_bytes = 13 * blob;
  const EngineSetup hybrid = make_setup(config, files);
  EXPECT_EQ(bytes_of(hybrid.memory.rank, "experts"), 13 * blob);
  EXPECT_EQ(bytes_of(hybrid.memory.host, "experts in host memory"), 20 * blob);
  EXPECT_EQ(bytes_of(hybrid.memory.rank, "window for experts"), 5 * 1 * blob)
      << "4 of a layer's 8 experts, 4 streamers";
  EXPECT_EQ(rank_failure(hybrid), RankFailure::kEndsAll);

  config.experts.host_bytes = 20 * blob - 1;
  expect_error([&] { (void)make_setup(config, files); }, ErrorCode::kOutOfMemory,
               {"experts in host memory", "the given limit of host memory"});
  config.experts.rank_bytes = 7 * blob;
  expect_error([&] { (void)make_setup(config, files); }, ErrorCode::kOutOfMemory, {"the first layer of experts"});
}

TEST(EngineSetup, VirtualRanksShareThreadsAndMemory) {
  const ModelFiles files(kModel);
  EngineConfig config = config_of_demo();
  config.ranks = 3;
  config.threads = 8;
  config.memory_limit_bytes = uint64_t{3} << 30;
  const EngineSetup setup = make_setup(config, files);
  for (int32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(setup.ranks[static_cast<size_t>(rank)].device.threads, 2);
    EXPECT_EQ(setup.ranks[static_cast<size_t>(rank)].device.index, rank);
  }
  const EngineMemory& memory = setup.memory;
  EXPECT_EQ(memory.ranks, 3);
  EXPECT_EQ(memory.host.limit_bytes, uint64_t{3} << 30);
  EXPECT_EQ(memory.rank.limit_bytes, ((uint64_t{3} << 30) - memory.host.total_bytes()) / 3)
      << "what tokenizer and pending requests take, the ranks cannot have";
  config.threads = 2;
  EXPECT_EQ(make_setup(config, files).ranks[2].device.threads, 1) << "each has at least one";
}

TEST(EngineSetup, PlansForPendingRequestsUpToTheirLimits) {
  const ModelFiles files(kModel);
  EngineConfig config = config_of_demo();
  const auto pending = [&] {
    for (const MemoryItem& item : make_setup(config, files).memory.host.items)
      if (item.consumer == "pending requests") return item.bytes;
    return uint64_t{0};
  };
  // A largest request: the model's 2,048 tokens, and as many candidates as one may have.
  const uint64_t largest = request_bytes(2048, kCandidatesMax);
  config.max_pending_requests = 3;
  EXPECT_EQ(pending(), 3 * largest);
  config.max_pending_requests = 1000;
  config.max_pending_bytes = 10 * largest;
  EXPECT_EQ(pending(), 11 * largest) << "the last one taken may go beyond the limit";
  config.max_pending_bytes = 0;
  EXPECT_THAT(validate(config), ::testing::ElementsAre(::testing::HasSubstr("max_pending_bytes is 0")));
}

TEST(EngineSetup, WithoutACudaBackendTheDeviceIsRefusedByName) {
  const ModelFiles files(kModel);
  EngineConfig config = config_of_demo();
  config.device = "cuda:1";
  expect_error([&] { (void)make_setup(config, files); }, ErrorCode::kUnsupported, {"cuda:1"});
}

}  // namespace
}  // namespace zp
