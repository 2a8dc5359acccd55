// Attention with mma.sync, four warps of 16 rows and one tile of keys at a time: the plain one, for any head dimension.
//
// Key tiles begin at multiples of 64 tokens from position 0, and a row's running maximum and sum change only with keys
// that it sees. So its bits depend neither on the rows beside it nor on which part of its context was cached.
#include <cmath>

#include "zp/ops/cuda/attention_kernels.h"
#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/ptx.cuh"

namespace zp::cuda {
namespace {

constexpr int32_t kThreads = 128;
constexpr int32_t kRows = kSimpleTileRows;
constexpr int32_t kKeys = 64;
constexpr int32_t kKeyGroups = kKeys / 8;

// Rows in shared memory are longer by 16 bytes, so that eight of them begin in different banks.
template <int32_t kDim>
constexpr int32_t kStride = kDim + 8;
template <int32_t kDim>
constexpr size_t kSharedBytes = static_cast<size_t>(kRows + 2 * kKeys) * kStride<kDim> * sizeof(__nv_bfloat16);

// Copies row `row` of a tile, zeros where `from` is null or beyond `dim`. Called by 16-byte columns.
template <int32_t kDim>
__device__ void copy_chunk(__nv_bfloat16* tile, int32_t row, int32_t chunk, const Bits16* from, int32_t dim) {
  const bool valid = from != nullptr && chunk * 8 < dim;
  uint4 value = make_uint4(0, 0, 0, 0);
  if (valid) value = *reinterpret_cast<const uint4*>(from + chunk * 8);
  *reinterpret_cast<uint4*>(tile + row * kStride<kDim> + chunk * 8) = value;
}

template <int32_t kDim>
__device__ void load_keys(__nv_bfloat16* keys, __nv_bfloat16* values, const AttentionParams& p,
                          const AttentionSpan& span, int32_t first, int32_t head) {
  constexpr int32_t kChunks = kDim / 8;
  const int32_t total = span.context + span.tokens;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kKeys * kChunks; i += kThreads) {
    const int32_t row = i / kChunks;
    const int32_t position = first + row;
    const Bits16* k = nullptr;
    const Bits16* v = nullptr;
    if (position < total) {
      const KvBlock block = p.blocks[span.block + position / kKvBlockTokens];
      const int64_t offset = (int64_t{position % kKvBlockTokens} * p.kv_heads + head) * p.head_dim;
      k = reinterpret_cast<const Bits16*>(block.k) + offset;
      v = reinterpret_cast<const Bits16*>(block.v) + offset;
    }
    copy_chunk<kDim>(keys, row, i % kChunks, k, p.head_dim);
    copy_chunk<kDim>(values, row, i % kChunks, v, p.head_dim);
  }
}

// The rows of a tile. This thread has rows lane / 4 and lane / 4 + 8 of its warp's 16, of each 8 columns two: 2 * (lane
// % 4) and the next.
struct TileRows {
  const AttentionSpan span;
  const int32_t first;
  const int32_t kv_head = static_cast<int32_t>(blockIdx.y);
  const int32_t q_heads;
  const int32_t head_dim;
  const int32_t group;
  const int32_t rows;  // of the sequence
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / kWarp;

  __device__ TileRows(const AttentionParams& p, const AttentionTile& tile)
      : span(p.spans[tile.span]),
        first(tile.first_row),
        q_heads(p.q_heads),
        head_dim(p.head_dim),
        group(p.q_heads / p.kv_heads),
        rows(span.tokens * group) {}

  // Offset in q and out of row r of the sequence's matrix.
  [[nodiscard]] __device__ int64_t offset(int32_t r) const {
    return ((span.row + r / group) * q_heads + kv_head * group + r % group) * head_dim;
  }
  // The thread's row i.
  [[nodiscard]] __device__ int32_t row(int32_t i) const { return first + warp * 16 + lane / 4 + 8 * i; }
  // The last key that row r sees.
  [[nodiscard]] __device__ int32_t position(int32_t r) const { return r < rows ? span.context + r / group : 0; }
  // The last key that any row sees.
  [[nodiscard]] __device__ int32_t last_position() const {
    return span.context + (min(first + kRows, rows) - 1) / group;
  }
};

template <int32_t kDim>
__device__ void load_queries(__nv_bfloat16* queries, const AttentionParams& p, const TileRows& tile) {
  constexpr int32_t kChunks = kDim / 8;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kRows * kChunks; i += kThreads) {
    const int32_t r = tile.first + i / kChunks;
    copy_chunk<kDim>(queries, i / kChunks, i % kChunks, r < tile.rows ? p.q + tile.offset(r) : nullptr, p.head_dim);
  }
}

// s = queries x keys.
template <int32_t kDim>
__device__ void multiply_keys(float (&s)[kKeyGroups][4], const uint32_t (&q)[kDim / 16][4], const __nv_bfloat16* keys,
                              int32_t lane) {
#pragma unroll
  for (int32_t d = 0; d < kDim / 16; ++d) {
#pragma unroll
    for (int32_t n = 0; n < kKeyGroups; n += 2) {
      uint32_t b[4];  // of keys [8n, 8n + 16): both halves of k of the first 8, then of the others
      ptx::load_matrices(b, ptx::shared_address(keys + (n * 8 + lane / 16 * 8 + lane % 8) * kStride<kDim> + d * 16 +
                                                lane / 8 % 2 * 8));
      ptx::multiply_16x8x16(s[n], q[d], b[0], b[1]);
      ptx::multiply_16x8x16(s[n + 1], q[d], b[2], b[3]);
    }
  }
}

// What the thread's two rows have come to after some keys.
template <int32_t kDim>
struct RowResults {
  static constexpr int32_t kOutGroups = kDim / 8;  // of 8 columns
  float out[kOutGroups][4] = {};
  float top[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};

  // Scores of the keys from `first` on to weights; what there is so far is scaled to the new maximum. Beyond the tile's
  // first keys some rows see nothing; in the first tile every row sees position 0.
  __device__ void weigh(float (&s)[kKeyGroups][4], int32_t first, const int32_t (&position)[2], float scale,
                        int32_t lane) {
    float new_top[2] = {top[0], top[1]};
#pragma unroll
    for (int32_t n = 0; n < kKeyGroups; ++n) {
#pragma unroll
      for (int32_t i = 0; i < 4; ++i) {
        const int32_t key = first + n * 8 + lane % 4 * 2 + i % 2;
        s[n][i] = key <= position[i / 2] ? s[n][i] * scale : -INFINITY;
        new_top[i / 2] = fmaxf(new_top[i / 2], s[n][i]);
      }
    }
    rescale(new_top);
#pragma unroll
    for (int32_t n = 0; n < kKeyGroups; ++n) {
#pragma unroll
      for (int32_t i = 0; i < 4; ++i) {
        s[n][i] = exp2f(s[n][i] - top[i / 2]);
        sum[i / 2] += s[n][i];
      }
    }
  }

  // Moves to the maximum over the four threads that have a row.
  __device__ void rescale(float (&new_top)[2]) {
    float factor[2];
#pragma unroll
    for (int32_t i = 0; i < 2; ++i) {
      new_top[i] = fmaxf(new_top[i], __shfl_xor_sync(0xffffffffu, new_top[i], 1));
      new_top[i] = fmaxf(new_top[i], __shfl_xor_sync(0xffffffffu, new_top[i], 2));
      factor[i] = exp2f(top[i] - new_top[i]);
      top[i] = new_top[i];
      sum[i] *= factor[i];
    }
#pragma unroll
    for (int32_t n = 0; n < kOutGroups; ++n) {
#pragma unroll
      for (int32_t i = 0; i < 4; ++i) out[n][i] *= factor[i / 2];
    }
  }

  // out += weights x values.
  __device__ void add_values(const float (&s)[kKeyGroups][4], const __nv_bfloat16* values, int32_t lane) {
#pragma unroll
    for (int32_t n = 0; n < kKeyGroups; n += 2) {
      const uint32_t a[4] = {pack_bf16(s[n][0], s[n][1]), pack_bf16(s[n][2], s[n][3]),
                             pack_bf16(s[n + 1][0], s[n + 1][1]), pack_bf16(s[n + 1][2], s[n + 1][3])};
#pragma unroll
      for (int32_t d = 0; d < kOutGroups; d += 2) {
        uint32_t b[4];  // of columns [8d, 8d + 16): both halves of the keys for the first 8, then for the others
        ptx::load_matrices_transposed(
            b, ptx::shared_address(values + (n * 8 + lane % 16) * kStride<kDim> + d * 8 + lane / 16 * 8));
        ptx::multiply_16x8x16(out[d], a, b[0], b[1]);
        ptx::multiply_16x8x16(out[d + 1], a, b[2], b[3]);
      }
    }
  }

  __device__ void store(Bits16* to, const TileRows& tile) {
#pragma unroll
    for (int32_t i = 0; i < 2; ++i) {
      sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 1);
      sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 2);
      if (tile.row(i) >= tile.rows) continue;
      Bits16* row = to + tile.offset(tile.row(i)) + tile.lane % 4 * 2;
      const float inverse = 1.0f / sum[i];
#pragma unroll
      for (int32_t d = 0; d < kOutGroups; ++d)
        if (d * 8 < tile.head_dim)
          *reinterpret_cast<uint32_t*>(row + d * 8) = pack_bf16(out[d][2 * i] * inverse, out[d][2 * i + 1] * inverse);
    }
  }
};

template <int32_t kDim>
__global__ void __launch_bounds__(kThreads) attention_simple_kernel(AttentionParams p) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto* queries = reinterpret_cast<__nv_bfloat16*>(shared);
  __nv_bfloat16* keys = queries + kRows * kStride<kDim>;
  __nv_bfloat16* values = keys + kKeys * kStride<kDim>;
  const TileRows tile(p, p.tiles[blockIdx.x]);
  load_queries<kDim>(queries, p, tile);
  __syncthreads();

  uint32_t q[kDim / 16][4];
#pragma unroll
  for (int32_t d = 0; d < kDim / 16; ++d)
    ptx::load_matrices(q[d], ptx::shared_address(queries + (tile.warp * 16 + tile.lane % 16) * kStride<kDim> + d * 16 +
                                                 tile.lane / 16 * 8));

  const int32_t position[2] = {tile.position(tile.row(0)), tile.position(tile.row(1))};
  const int32_t last_position = tile.last_position();
  const float scale = p.scale * kLog2E;
  RowResults<kDim> rows;
  for (int32_t first = 0; first <= last_position; first += kKeys) {
    __syncthreads();
    load_keys<kDim>(keys, values, p, tile.span, first, tile.kv_head);
    __syncthreads();
    float s[kKeyGroups][4] = {};
    multiply_keys<kDim>(s, q, keys, tile.lane);
    rows.weigh(s, first, position, scale, tile.lane);
    rows.add_values(s, values, tile.lane);
  }
  rows.store(p.out, tile);
}

template <int32_t kDim>
void launch(const AttentionParams& params, cudaStream_t stream) {
  (void)cudaFuncSetAttribute(attention_simple_kernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(kSharedBytes<kDim>));
  const dim3 grid(static_cast<unsigned>(params.tile_count), static_cast<unsigned>(params.kv_heads));
  attention_simple_kernel<kDim><<<grid, kThreads, kSharedBytes<kDim>, stream>>>(params);
}

}  // namespace

void launch_attention_simple(const AttentionParams& params, cudaStream_t stream) {
  if (params.head_dim <= 32)
    launch<32>(params, stream);
  else if (params.head_dim <= 64)
    launch<64>(params, stream);
  else if (params.head_dim <= 128)
    launch<128>(params, stream);
  else
    launch<kHeadDimMax>(params, stream);
}

}  // namespace zp::cuda
