// What the CUDA operations refuse, by arithmetic that needs no GPU.
#include <gtest/gtest.h>

#include "zp/ops/cuda/expert_layout.h"

namespace zp::cuda {
namespace {

// Rows of 12,288 elements a token (Qwen3-235B-A22B: 8 experts of 1,536), in pieces of 8: 2^32 / 1,536 tokens and no
// more.
TEST(CudaLimits, TokensOfExpertsAreCountedIn32Bits) {
  EXPECT_EQ(moe_tokens_max(8, 4096, 1536), 2'796'202);
  // The longest row decides: that of x where few experts are small.
  EXPECT_EQ(moe_tokens_max(1, 4096, 64), (int64_t{1} << 32) / 512);
  // 1,025 features are padded to 1,088.
  EXPECT_EQ(moe_tokens_max(32, 64, 1025), (int64_t{1} << 32) / (32 * 1088 / 8));
}

}  // namespace
}  // namespace zp::cuda
