// The grouped products on the tensor cores. Clusters of two blocks, one block a multiprocessor, take tile after tile of
// 256 slots by 256 rows of weights, of which each block has half the slots. A block has three warpgroups:
//   - the first fetches: half of a weight tile by bulk copy, as it lies in the blob, for both blocks; its rows of x,
//     wherever they are, by cp.async to the same swizzled layout;
//   - the two others multiply 64 slots each, apply SwiGLU in their registers, and store.
// They meet at a ring of kStages buffers: `full` when a buffer's bytes are there, `empty` when the multiplying
// warpgroups of both blocks have read it.
//
// The sum over k runs in one order for every element, and which 64 slots are multiplied together does not change the
// arithmetic of any one of them: a slot's result depends on its own row alone.
#include <algorithm>

#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/expert_layout.h"
#include "zp/ops/cuda/moe_kernels.h"
#include "zp/ops/cuda/ptx_async.cuh"
#include "zp/ops/cuda/ptx_wgmma.cuh"

namespace zp::cuda {
namespace {

constexpr int32_t kGroupThreads = 128;
constexpr int32_t kThreads = 3 * kGroupThreads;
constexpr int32_t kGroupRows = 64;
constexpr int32_t kBlocks = 2;  // of a cluster
constexpr int32_t kBlockRows = kTileM / kBlocks;
constexpr int32_t kStages = 4;
constexpr uint32_t kXBytes = kBlockRows * kRowBytes;
constexpr uint32_t kWeightBytes = kTileBytes;
constexpr uint32_t kWeightPartBytes = kWeightBytes / kBlocks;
constexpr uint32_t kStageBytes = kXBytes + kWeightBytes;
// Together, what 168 registers a thread at the start add up to.
constexpr uint32_t kFetchRegisters = 56;
constexpr uint32_t kMultiplyRegisters = 224;

// Shared memory, from an address aligned to the swizzle's 1024 bytes.
struct Shared {
  uint32_t stages;
  uint32_t full;
  uint32_t empty;
  int32_t* tile_starts;  // [E + 1]
  int32_t* offsets;      // [E + 1]

  static constexpr uint32_t kBarrierBytes = 2 * kStages * 8;
  [[nodiscard]] static size_t size_bytes(int32_t experts) {
    return 1024 + kStages * kStageBytes + kBarrierBytes + 2 * (static_cast<size_t>(experts) + 1) * sizeof(int32_t);
  }
  __device__ Shared(unsigned char* memory, int32_t experts) {
    const uint32_t begin = ptx::shared_address(memory);
    const uint32_t skip = (1024 - begin % 1024) % 1024;
    stages = begin + skip;
    full = stages + kStages * kStageBytes;
    empty = full + kStages * 8;
    tile_starts = reinterpret_cast<int32_t*>(memory + skip + kStages * kStageBytes + kBarrierBytes);
    offsets = tile_starts + experts + 1;
  }
  [[nodiscard]] __device__ uint32_t x(int32_t stage) const { return stages + stage * kStageBytes; }
  [[nodiscard]] __device__ uint32_t weights(int32_t stage) const { return x(stage) + kXBytes; }
};

// Counts through the ring; parity is that of the buffer's current phase.
struct Turn {
  int32_t stage = 0;
  uint32_t parity = 0;
  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// This block's part of a tile.
struct Tile {
  int32_t expert;
  int32_t n;      // of the tile's weights
  int32_t first;  // slot
  int32_t rows;   // slots; none if the other block has all
};

// Tiles of an expert that share weights come one after another, so that neighbouring clusters read them together. The
// slots of an expert's last tile are dealt out by 64, so that both blocks end together.
__device__ Tile locate(const GroupedGemmParams& p, const Shared& shared, int32_t index) {
  const int32_t expert = find_range(shared.tile_starts, p.expert_count, index / p.n_tiles);
  const int32_t first_tile = shared.tile_starts[expert];
  const int32_t local = index - first_tile * p.n_tiles;
  const int32_t m_tiles = shared.tile_starts[expert + 1] - first_tile;
  Tile tile;
  tile.expert = expert;
  tile.n = local / m_tiles;
  tile.first = shared.offsets[expert] + (local - tile.n * m_tiles) * kTileM;
  const int32_t rows = min(shared.offsets[expert + 1] - tile.first, kTileM);
  const int32_t of_first_block = min((rows + 2 * kGroupRows - 1) / (2 * kGroupRows) * kGroupRows, rows);
  if (ptx::cluster_rank() == 0) {
    tile.rows = of_first_block;
  } else {
    tile.rows = rows - of_first_block;
    if (tile.rows > 0) tile.first += of_first_block;
  }
  return tile;
}

// A cluster's first tile, and how far apart its tiles are.
__device__ int32_t first_tile() { return static_cast<int32_t>(blockIdx.x) / kBlocks; }
__device__ int32_t clusters() { return static_cast<int32_t>(gridDim.x) / kBlocks; }

__device__ void fetch(const GroupedGemmParams& p, const Shared& shared, int32_t tiles) {
  constexpr int32_t kLag = 2;  // buffers whose x this thread has asked for and not yet reported
  constexpr int32_t kRowsApart = kGroupThreads / 8;
  constexpr int32_t kRowsEach = kBlockRows / kRowsApart;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t chunk = thread % 8;
  const int32_t first_row = thread / 8;
  const uint32_t x_offset = static_cast<uint32_t>(chunk_offset(first_row, chunk));
  const auto k_chunks = static_cast<int32_t>(p.k / kChunkElements);
  const auto stride_chunks = static_cast<uint32_t>(p.x_stride / kChunkElements);
  const auto* x = reinterpret_cast<const uint4*>(p.x);
  const uint32_t part = ptx::cluster_rank() * kWeightPartBytes;  // that this block fetches for both

  Turn turn;
  Turn reported;
  int32_t unreported = 0;
  const auto report = [&] {
    ptx::fence_async_proxy();
    ptx::arrive(shared.full + reported.stage * 8);
    reported.next();
    --unreported;
  };
  for (int32_t index = first_tile(); index < tiles; index += clusters()) {
    const Tile tile = locate(p, shared, index);
    uint32_t row_chunks[kRowsEach];  // where this thread's rows begin, in chunks; rows beyond the tile's are zero
#pragma unroll
    for (int32_t i = 0; i < kRowsEach; ++i) {
      const int32_t row = first_row + i * kRowsApart;
      const int32_t slot = tile.first + (row < tile.rows ? row : 0);
      row_chunks[i] = static_cast<uint32_t>(p.rows == nullptr ? slot : p.rows[slot]) * stride_chunks;
    }
    const std::byte* weights = p.experts[tile.expert] + p.weight_offset +
                               int64_t{tile.n} * p.k_tiles * static_cast<int64_t>(kTileBytes) + part;
    for (int32_t k = 0; k < p.k_tiles; ++k) {
      const uint32_t empty = shared.empty + turn.stage * 8;
      if (!ptx::test_barrier(empty, turn.parity ^ 1)) {
        // Whoever is to empty it may be waiting for what is under way.
        ptx::wait_copies<0>();
        while (unreported > 0) report();
        ptx::wait_barrier(empty, turn.parity ^ 1);
      }
      const uint32_t full = shared.full + turn.stage * 8;
      if (thread == 0) {
        ptx::arrive_expecting(full, kWeightBytes);
        ptx::copy_bulk_to_cluster(shared.weights(turn.stage) + part, weights + k * static_cast<int64_t>(kTileBytes),
                                  kWeightPartBytes, full, (1 << kBlocks) - 1);
      }
      const int32_t at = k * static_cast<int32_t>(kTileK / kChunkElements) + chunk;
      const uint32_t to = shared.x(turn.stage) + x_offset;
#pragma unroll
      for (int32_t i = 0; i < kRowsEach; ++i) {
        const bool valid = at < k_chunks && first_row + i * kRowsApart < tile.rows;
        ptx::copy_async_16(to + i * kRowsApart * static_cast<uint32_t>(kRowBytes),
                           x + (valid ? row_chunks[i] + static_cast<uint32_t>(at) : 0), valid);
      }
      ptx::commit_copies();
      turn.next();
      ++unreported;
      ptx::wait_copies<kLag>();
      while (unreported > kLag) report();
    }
  }
  ptx::wait_copies<0>();
  while (unreported > 0) report();
}

// A thread's results: for each group of eight columns two of row lane / 4 and two of row lane / 4 + 8.
using Sums = float[kTileN / 2];

// Eight features a store; `half` tells the two rows apart.
__device__ void store_gate_up(const GroupedGemmParams& p, const Sums& d, int32_t n, int32_t half, int32_t lane,
                              Bits16* row) {
#pragma unroll
  for (int32_t block = 0; block < kTileN / 64; ++block) {
    const int64_t feature = n * kGateUpFeatures + block * 32 + lane % 4 * 8;
    if (feature >= p.out_stride) continue;
    uint32_t words[4];
#pragma unroll
    for (int32_t j = 0; j < 4; ++j) {
      const int32_t gate = (block * 8 + 2 * j) * 4 + 2 * half;
      const int32_t up = gate + 4;
      words[j] = pack_bf16(silu(d[gate]) * d[up], silu(d[gate + 1]) * d[up + 1]);
    }
    if (feature + 8 > p.out_columns) {
      // A row with infinities has NaN where there are no weights.
#pragma unroll
      for (int32_t j = 0; j < 4; ++j) {
        if (feature + 2 * j >= p.out_columns) words[j] = 0;
        if (feature + 2 * j + 1 >= p.out_columns) words[j] &= 0xffffu;
      }
    }
    *reinterpret_cast<uint4*>(row + feature) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

__device__ void store_down(const GroupedGemmParams& p, const Sums& d, int32_t n, int32_t half, int32_t lane,
                           Bits16* row) {
#pragma unroll
  for (int32_t block = 0; block < kTileN / 32; ++block) {
    const int64_t feature = n * kTileN + block * 32 + lane % 4 * 8;
    if (feature >= p.out_columns) continue;
    uint32_t words[4];
#pragma unroll
    for (int32_t j = 0; j < 4; ++j) {
      const int32_t at = (block * 4 + j) * 4 + 2 * half;
      words[j] = pack_bf16(d[at], d[at + 1]);
    }
    *reinterpret_cast<uint4*>(row + feature) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

template <bool kGateUp>
__device__ void multiply(const GroupedGemmParams& p, const Shared& shared, int32_t tiles) {
  const auto group = static_cast<int32_t>(threadIdx.x) / kGroupThreads - 1;
  const auto thread = static_cast<int32_t>(threadIdx.x) % kGroupThreads;
  const int32_t lane = thread % kWarp;
  // A lane for each block of the cluster tells it that a buffer is empty.
  const bool reports = lane < kBlocks;
  const uint32_t empty = ptx::cluster_address(shared.empty, reports ? static_cast<uint32_t>(lane) : 0);
  Turn turn;
  float d[kTileN / 2] = {};
  Tile next{};
  if (first_tile() < tiles) next = locate(p, shared, first_tile());
  for (int32_t index = first_tile(); index < tiles; index += clusters()) {
    const Tile tile = next;
    const auto find_next = [&] {
      if (index + clusters() < tiles) next = locate(p, shared, index + clusters());
    };
    const int32_t rows_left = tile.rows - group * kGroupRows;
    if (rows_left <= 0) {
      // Nothing to multiply, but the buffers go round.
      find_next();
      for (int32_t k = 0; k < p.k_tiles; ++k, turn.next()) {
        ptx::wait_barrier(shared.full + turn.stage * 8, turn.parity);
        if (reports) ptx::arrive_in_cluster(empty + turn.stage * 8);
      }
      continue;
    }
    ptx::pin_registers(d);
    int32_t previous = 0;
    for (int32_t k = 0; k < p.k_tiles; ++k) {
      ptx::wait_barrier(shared.full + turn.stage * 8, turn.parity);
      const uint64_t a = ptx::describe_matrix(shared.x(turn.stage) + group * kGroupRows * kRowBytes, 16, 1024);
      const uint64_t b = ptx::describe_matrix(shared.weights(turn.stage), 16, 1024);
      ptx::begin_products();
#pragma unroll
      for (int32_t step = 0; step < kTileK / 16; ++step)
        ptx::multiply_64x256x16(d, a + 2 * step, b + 2 * step, k > 0 || step > 0);
      ptx::commit_products();
      if (k == 0) find_next();  // while the products run
      // The products of the buffer before have ended once only this one's are under way.
      ptx::wait_products<1>();
      if (k > 0 && reports) ptx::arrive_in_cluster(empty + previous * 8);
      previous = turn.stage;
      turn.next();
    }
    ptx::wait_products<0>();
    ptx::pin_registers(d);
    if (reports) ptx::arrive_in_cluster(empty + previous * 8);

#pragma unroll
    for (int32_t half = 0; half < 2; ++half) {
      const int32_t row = thread / kWarp * 16 + lane / 4 + 8 * half;
      if (row >= rows_left) continue;
      Bits16* out = p.out + (int64_t{tile.first} + group * kGroupRows + row) * p.out_stride;
      if constexpr (kGateUp)
        store_gate_up(p, d, tile.n, half, lane, out);
      else
        store_down(p, d, tile.n, half, lane, out);
    }
  }
}

template <bool kGateUp>
__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
    grouped_gemm_kernel(const __grid_constant__ GroupedGemmParams p) {
  extern __shared__ unsigned char memory[];
  const Shared shared(memory, p.expert_count);
  for (int32_t e = static_cast<int32_t>(threadIdx.x); e <= p.expert_count; e += kThreads) {
    shared.tile_starts[e] = p.tile_starts[e];
    shared.offsets[e] = p.offsets[e];
  }
  if (threadIdx.x == 0) {
    for (int32_t stage = 0; stage < kStages; ++stage) {
      ptx::init_barrier(shared.full + stage * 8, kGroupThreads + 1);
      ptx::init_barrier(shared.empty + stage * 8, kBlocks * 2 * kGroupThreads / kWarp);
    }
    ptx::publish_barriers();
  }
  ptx::sync_cluster();
  const int32_t tiles = shared.tile_starts[p.expert_count] * p.n_tiles;
  if (threadIdx.x < kGroupThreads) {
    ptx::fewer_registers<kFetchRegisters>();
    fetch(p, shared, tiles);
  } else {
    ptx::more_registers<kMultiplyRegisters>();
    multiply<kGateUp>(p, shared, tiles);
  }
  // The other block may still write to this one's shared memory.
  ptx::sync_cluster();
}

template <bool kGateUp>
void launch(const GroupedGemmParams& params, int32_t multiprocessors, cudaStream_t stream) {
  const size_t shared_bytes = Shared::size_bytes(params.expert_count);
  (void)cudaFuncSetAttribute(grouped_gemm_kernel<kGateUp>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes));
  const auto blocks = static_cast<unsigned>(std::max(multiprocessors / kBlocks, 1) * kBlocks);
  grouped_gemm_kernel<kGateUp><<<blocks, kThreads, shared_bytes, stream>>>(params);
}

}  // namespace

void launch_grouped_gemm(const GroupedGemmParams& params, int32_t multiprocessors, cudaStream_t stream) {
  if (params.gate_up)
    launch<true>(params, multiprocessors, stream);
  else
    launch<false>(params, multiprocessors, stream);
}

}  // namespace zp::cuda
