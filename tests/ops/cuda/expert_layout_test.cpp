// The layout of experts, without a GPU: every weight lies where the kernel's fragments look for it.
#include "zp/ops/cuda/expert_layout.h"

#include <set>

#include "tests/ops/moe_case.h"
#include "zp/ops/cuda/expert_pack.h"

namespace zp::test {
namespace {

using namespace cuda;  // NOLINT(google-build-using-namespace): the subject of every test here

// The hardware's rule: of an address, bits 4 to 6 are xored with bits 7 to 9.
size_t swizzle_128(size_t address) { return address ^ (address >> 3 & 0x70); }

TEST(ExpertLayout, ChunksLieWhereTheSwizzleHasThem) {
  for (int64_t row = 0; row < kTileN; ++row)
    for (int64_t chunk = 0; chunk < 8; ++chunk)
      EXPECT_EQ(chunk_offset(row, chunk), swizzle_128(static_cast<size_t>(row * 128 + chunk * 16)));
}

// Thread c of four holds, of each group j of eight columns, columns 8j + 2c and 8j + 2c + 1.
TEST(ExpertLayout, AThreadsColumnsAreNeighbouringFeatures) {
  std::set<int64_t> rows;
  for (int64_t block = 0; block < 8; ++block)
    for (int64_t c = 0; c < 4; ++c)
      for (int64_t e = 0; e < 8; ++e) {
        const int64_t column = (block * 4 + e / 2) * 8 + 2 * c + e % 2;
        EXPECT_EQ(down_row(block * 32 + 8 * c + e), column);
        rows.insert(column);
      }
  EXPECT_EQ(rows.size(), 256u);
  rows.clear();
  for (int64_t block = 0; block < 4; ++block)
    for (int64_t c = 0; c < 4; ++c)
      for (int64_t e = 0; e < 8; ++e) {
        const int64_t gate = (block * 8 + e / 2 * 2) * 8 + 2 * c + e % 2;
        EXPECT_EQ(gate_row(block * 32 + 8 * c + e), gate);
        EXPECT_EQ(up_row(block * 32 + 8 * c + e), gate + 8);
        rows.insert(gate);
        rows.insert(gate + 8);
      }
  EXPECT_EQ(rows.size(), 256u);
}

// Reads the blob as the kernel does: tile by tile, row and chunk.
float at(const std::byte* tile, int64_t row, int64_t k) {
  return to_float(reinterpret_cast<const Bf16*>(tile + chunk_offset(row, k / 8))[k % 8]);
}

TEST(ExpertLayout, EveryWeightIsThereAndTheRestIsZero) {
  Random random(1);
  SCOPED_TRACE(random.seed());
  for (const ExpertSize& size : {ExpertSize{8, 1}, ExpertSize{256, 128}, ExpertSize{264, 130}, ExpertSize{72, 300}}) {
    const ExpertLayer layer(random, DType::kBf16, 1, size);
    const cuda::ExpertLayout layout(size.hidden, size.intermediate);
    EXPECT_EQ(layout.blob_bytes() % 256, 0u);
    std::vector<std::byte> blob(layout.blob_bytes(), std::byte{0xff});
    cuda::pack_expert(layer[0].gate.view(), layer[0].up.view(), layer[0].down.view(), blob);
    int64_t found = 0;
    for (int64_t f = 0; f < layout.gate_up_n_tiles * kGateUpFeatures; ++f)
      for (int64_t h = 0; h < layout.gate_up_k_tiles * kTileK; ++h) {
        const std::byte* tile = blob.data() + layout.gate_up_offset(f / kGateUpFeatures, h / kTileK);
        const bool inside = f < size.intermediate && h < size.hidden;
        const int64_t row = f % kGateUpFeatures;
        EXPECT_EQ(at(tile, gate_row(row), h % kTileK), inside ? layer[0].gate.at(f * size.hidden + h) : 0.0f);
        EXPECT_EQ(at(tile, up_row(row), h % kTileK), inside ? layer[0].up.at(f * size.hidden + h) : 0.0f);
        found += inside ? 2 : 0;
      }
    for (int64_t h = 0; h < layout.down_n_tiles * kTileN; ++h)
      for (int64_t i = 0; i < layout.down_k_tiles * kTileK; ++i) {
        const std::byte* tile = blob.data() + layout.down_offset(h / kTileN, i / kTileK);
        const bool inside = h < size.hidden && i < size.intermediate;
        EXPECT_EQ(at(tile, down_row(h % kTileN), i % kTileK),
                  inside ? layer[0].down.at(h * size.intermediate + i) : 0.0f);
        found += inside ? 1 : 0;
      }
    EXPECT_EQ(found, 3 * size.hidden * size.intermediate);
  }
}

}  // namespace
}  // namespace zp::test
