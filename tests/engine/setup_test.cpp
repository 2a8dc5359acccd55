// Which configurations are refused, and what is named.
#include "zp/engine/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

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

TEST(EngineSetup, WithoutACudaBackendTheDeviceIsRefusedByName) {
  const ModelFiles files(kModel);
  EngineConfig config = config_of_demo();
  config.device = "cuda:1";
  expect_error([&] { (void)make_setup(config, files); }, ErrorCode::kUnsupported, {"cuda:1"});
}

}  // namespace
}  // namespace zp
