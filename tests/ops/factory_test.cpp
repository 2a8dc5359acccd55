// Which operations one gets.
#include "zp/ops/factory.h"

#include <thread>

#include "tests/ops/harness.h"
#include "tests/support/errors.h"
#include "tests/support/fake_gpu.h"

namespace zp::test {
namespace {

TEST(OpsFactory, MakesTheTypeAskedFor) {
  cpu::CpuDevice device(0, 1);
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const bool reference : {false, true}) {
      const auto ops = make_ops(device, {.activation = type, .reference = reference, .limits = {}});
      EXPECT_EQ(ops->activation_dtype(), type);
      EXPECT_EQ(std::string(ops->description()).find("reference") != std::string::npos, reference);
    }
  }
}

TEST(OpsFactory, DefaultTypeFollowsTheMachine) {
  cpu::CpuDevice device(0, 1);
  const DType wanted = cpu::detect_isa() >= cpu::Isa::kAvx512 ? DType::kBf16 : DType::kF32;
  EXPECT_EQ(default_activation_dtype(device), wanted);
  EXPECT_EQ(make_ops(device, {})->activation_dtype(), wanted);
}

TEST(OpsFactory, RefusesTypesItCannotComputeIn) {
  cpu::CpuDevice device(0, 1);
  expect_error([&] { (void)make_ops(device, {.activation = DType::kF16, .limits = {}}); }, ErrorCode::kUnsupported,
               {"f16", "f32 or bf16"});
}

TEST(OpsFactory, RefusesHeadsWiderThanItsScratch) {
  cpu::CpuDevice device(0, 1);
  OpsSpec spec{.activation = DType::kF32, .limits = test_limits()};
  spec.limits.head_dim = 512;
  EXPECT_NE(make_ops(device, spec), nullptr);
  spec.limits.head_dim = 514;
  expect_error([&] { (void)make_ops(device, spec); }, ErrorCode::kUnsupported, {"514", "512"});
}

TEST(OpsFactory, ScratchGrowsWithThreadsAndLimits) {
  cpu::CpuDevice one(0, 1);
  cpu::CpuDevice three(0, 3);
  const OpsSpec small{.activation = DType::kBf16, .limits = test_limits()};
  OpsSpec large = small;
  large.limits.moe_tokens *= 2;
  EXPECT_LT(ops_scratch_bytes(one, small), ops_scratch_bytes(three, small));
  EXPECT_LT(ops_scratch_bytes(one, small), ops_scratch_bytes(one, large));
  EXPECT_EQ(ops_scratch_bytes(one, {.activation = DType::kF32, .reference = true, .limits = test_limits()}), 0u);
}

// Byte by byte, with the sizes of a block's, a tile's and a sequence's entries (cuda/attention_kernels.h) and of an id.
size_t attention_bytes(int64_t tokens, int64_t heads) {
  size_t bytes = 24;
  for (int64_t t = 0; t < tokens; t += 16) bytes += 16;
  for (int64_t row = 0; row < tokens * heads; row += 64) bytes += 8;
  return bytes;
}

// A segment of 16 MiB, of which 4 KiB are for alignment.
TEST(OpsTokenLimits, AreWhatAGpusMetadataHasRoomFor) {
  constexpr size_t kSegment = 16777216;
  const FakeGpu gpu;
  for (const int64_t heads : {1, 3, 4, 8, 12, 16, 71, 128, 256}) {
    const OpsTokenLimits limits = ops_token_limits(gpu, heads);
    EXPECT_EQ(limits.sequence % 16, 0);
    EXPECT_LE(limits.step * 4, kSegment);
    EXPECT_LE(limits.sequence, limits.step);
    EXPECT_LE(attention_bytes(limits.sequence, heads), kSegment - 4096) << heads;
    // Four blocks are one step of the limit.
    EXPECT_TRUE(limits.sequence == limits.step || attention_bytes(limits.sequence + 64, heads) > kSegment - 4096 - 32)
        << heads;
  }
  EXPECT_EQ(ops_token_limits(gpu, 8).sequence, 4194304) << "an id a token";
  EXPECT_GT(ops_token_limits(cpu::CpuDevice(0, 1), 16).sequence, int64_t{1} << 40);
}

TEST(OpsChecks, WrongShapesAndTypesAreBugs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  cpu::CpuDevice device(0, 1);
  const auto ops = make_ops(device, {.activation = DType::kF32, .limits = test_limits()});
  const auto stream = device.create_stream("test");
  const HostTensor x(DType::kF32, {2, 8});
  const HostTensor weight(DType::kF32, {4, 8});
  const ConstTensorView view = weight.view();
  const PackedMatrix packed = ops->pack_matrix({&view, 1});
  HostTensor narrow(DType::kF32, {2, 3});
  HostTensor bf16(DType::kBf16, {2, 4});
  HostTensor right(DType::kF32, {2, 4});
  EXPECT_DEATH(ops->linear(*stream, {.x = x.view(), .weight = &packed, .out = narrow.view()}), "out is .2, 3.");
  EXPECT_DEATH(ops->linear(*stream, {.x = x.view(), .weight = &packed, .out = bf16.view()}), "out is bf16");
  EXPECT_DEATH(ops->linear(*stream, {.x = narrow.view(), .weight = &packed, .out = right.view()}), "x is .2, 3.");
  const std::vector<int32_t> ids = {4};
  HostTensor embedded(DType::kF32, {1, 8});
  EXPECT_DEATH(ops->embed(*stream, {.ids = ids, .table = weight.view(), .out = embedded.view()}), "token id 4 of 4");
}

}  // namespace
}  // namespace zp::test
