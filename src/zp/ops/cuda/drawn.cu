// Draws random weights where they are to lie. A thread makes eight neighbouring elements of a row: two calls of the
// generator, one store.
#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/expert_layout.h"
#include "zp/ops/cuda/kernels.h"

namespace zp::cuda {
namespace {

constexpr int32_t kThreads = 256;
constexpr int64_t kBlocksMax = 132 * 16;

// Elements [column, column + 8) of a row, both counted from the part's own first; zero beyond the part.
__device__ void draw_eight(const DrawnMatrix& m, int64_t row, int64_t column, float (&values)[kChunkElements]) {
  PhiloxWords words{};
  int64_t drawn_quad = -1;
#pragma unroll
  for (int32_t i = 0; i < kChunkElements; ++i) {
    values[i] = 0;
    if (row >= m.rows || column + i >= m.columns) continue;
    const int64_t at = m.column + column + i;
    if (at / 4 != drawn_quad) {
      drawn_quad = at / 4;
      words = drawn_words(m.key, m.row + row, drawn_quad);
    }
    const int64_t lane = at % 4;
    const uint32_t word = lane == 0   ? words.word[0]
                          : lane == 1 ? words.word[1]
                          : lane == 2 ? words.word[2]
                                      : words.word[3];
    // Rounded to bf16, whatever it is stored as.
    values[i] = __bfloat162float(__float2bfloat16_rn(drawn_value(word, m.unit)));
  }
}

__device__ uint4 pack_eight(const float (&v)[kChunkElements]) {
  return {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
}

__global__ void draw_kernel(DrawParams p) {
  const DrawnMatrix& m = p.matrix;
  const int64_t row_chunks = (m.columns + kChunkElements - 1) / kChunkElements;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < m.rows * row_chunks;
       i += int64_t{gridDim.x} * kThreads) {
    const int64_t row = i / row_chunks;
    const int64_t column = i % row_chunks * kChunkElements;
    float values[kChunkElements];
    draw_eight(m, row, column, values);
    const int64_t at = row * m.columns + column;
    if (!p.out_is_f32 && m.columns % kChunkElements == 0) {
      *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(p.out) + at) = pack_eight(values);
      continue;
    }
#pragma unroll
    for (int32_t j = 0; j < kChunkElements; ++j) {
      if (column + j >= m.columns) break;
      if (p.out_is_f32)
        static_cast<float*>(p.out)[at + j] = values[j];
      else
        static_cast<__nv_bfloat16*>(p.out)[at + j] = __float2bfloat16_rn(values[j]);
    }
  }
}

// A chunk of a tile, wherever in the blob it lies, is eight elements of one row of one matrix: as pack_expert() has it.
__global__ void draw_expert_kernel(DrawExpertParams p, ExpertLayout layout) {
  constexpr int64_t kTileChunks = kTileBytes / 16;
  constexpr int64_t kRowChunks = kRowBytes / 16;
  const int64_t gate_up_chunks = layout.gate_up_n_tiles * layout.gate_up_k_tiles * kTileChunks;
  const int64_t chunks = gate_up_chunks + layout.down_n_tiles * layout.down_k_tiles * kTileChunks;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < chunks; i += int64_t{gridDim.x} * kThreads) {
    const bool gate_up = i < gate_up_chunks;
    const int64_t of_part = gate_up ? i : i - gate_up_chunks;
    const int64_t k_tiles = gate_up ? layout.gate_up_k_tiles : layout.down_k_tiles;
    const int64_t tile = of_part / kTileChunks;
    const int64_t feature = of_part % kTileChunks / kRowChunks;  // of the tile's 256, gate before up
    const int64_t chunk = of_part % kRowChunks;
    const int64_t column = tile % k_tiles * kTileK + chunk * kChunkElements;
    float values[kChunkElements];
    int64_t row_in_tile = 0;
    if (gate_up) {
      const bool up = feature >= kGateUpFeatures;
      const int64_t f = feature % kGateUpFeatures;
      row_in_tile = up ? up_row(f) : gate_row(f);
      draw_eight(up ? p.up : p.gate, tile / k_tiles * kGateUpFeatures + f, column, values);
    } else {
      row_in_tile = down_row(feature);
      draw_eight(p.down, tile / k_tiles * kTileN + feature, column, values);
    }
    std::byte* to = p.blob + (gate_up ? 0 : layout.down_begin()) + static_cast<size_t>(tile) * kTileBytes;
    *reinterpret_cast<uint4*>(to + chunk_offset(row_in_tile, chunk)) = pack_eight(values);
  }
}

unsigned blocks_for(int64_t items) {
  const int64_t blocks = (items + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax);
}

}  // namespace

void launch_draw(const DrawParams& params, cudaStream_t stream) {
  const DrawnMatrix& m = params.matrix;
  const int64_t chunks = m.rows * ((m.columns + kChunkElements - 1) / kChunkElements);
  draw_kernel<<<blocks_for(chunks), kThreads, 0, stream>>>(params);
}

void launch_draw_expert(const DrawExpertParams& params, cudaStream_t stream) {
  const ExpertLayout layout(params.gate.columns, params.gate.rows);
  draw_expert_kernel<<<blocks_for(static_cast<int64_t>(layout.blob_bytes() / 16)), kThreads, 0, stream>>>(params,
                                                                                                          layout);
}

}  // namespace zp::cuda
