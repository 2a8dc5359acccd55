// Packs experts, one row of a matrix after another.
#include "zp/ops/cuda/expert_pack.h"

#include <cstring>
#include <vector>

#include "zp/base/math.h"
#include "zp/ops/cuda/expert_layout.h"
#include "zp/tensor/convert.h"

namespace zp::cuda {
namespace {

// Writes a row of k elements to `row` of each of its k tiles; the first one begins at `tiles`.
class RowPacker {
 public:
  explicit RowPacker(int64_t k) : k_(k), bytes_(static_cast<size_t>(round_up(k, kTileK)) * sizeof(Bf16)) {}

  void pack(const ConstTensorView& matrix, int64_t from, std::byte* tiles, int64_t row) {
    convert_elements(matrix.rows(from, 1), DType::kBf16,
                     std::span(bytes_).first(static_cast<size_t>(k_) * sizeof(Bf16)));
    constexpr int64_t kChunks = kTileK / kChunkElements;
    const std::byte* chunk = bytes_.data();
    for (int64_t k = 0; k < k_; k += kTileK, tiles += kTileBytes)
      for (int64_t c = 0; c < kChunks; ++c, chunk += 16) std::memcpy(tiles + chunk_offset(row, c), chunk, 16);
  }

 private:
  int64_t k_;
  std::vector<std::byte> bytes_;  // zero beyond the row
};

}  // namespace

void pack_expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
                 std::span<std::byte> blob) {
  const int64_t hidden = gate.dim(1);
  const int64_t intermediate = gate.dim(0);
  const ExpertLayout layout(hidden, intermediate);
  if (intermediate % kGateUpFeatures != 0 || hidden % kTileN != 0) std::memset(blob.data(), 0, blob.size());
  RowPacker gate_up_packer(hidden);
  for (int64_t f = 0; f < intermediate; ++f) {
    std::byte* tiles = blob.data() + layout.gate_up_offset(f / kGateUpFeatures, 0);
    gate_up_packer.pack(gate, f, tiles, gate_row(f % kGateUpFeatures));
    gate_up_packer.pack(up, f, tiles, up_row(f % kGateUpFeatures));
  }
  RowPacker down_packer(intermediate);
  for (int64_t h = 0; h < hidden; ++h)
    down_packer.pack(down, h, blob.data() + layout.down_offset(h / kTileN, 0), down_row(h % kTileN));
}

}  // namespace zp::cuda
