// The grouped products on the tensor cores. Clusters of two blocks, one block a multiprocessor, take tile after tile of
// 256 slots by 256 rows of weights, of which each block has half the slots. A block has three warpgroups:
//   - the first fetches: half of a weight tile by bulk copy, as it lies in the blob, for both blocks; its rows of x,
//     wherever they are, by cp.async to the same swizzled layout;
//   - the two others multiply 64 slots each, apply SwiGLU in their registers, and store.
// They meet at a ring of kStages buffers: `full` when a buffer's bytes are there, `empty` when the multiplying
// warpgroups of both blocks have read it.
//
// Clusters take tiles in order, from one counter, whenever they have begun their last: so what is worked on at a time
// is close together, and shares weights and rows in L2. (With every cluster's tiles fixed, clusters drift apart by
// tiles of fewer slots, and three to seven times the bytes came from device memory.)
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
// Tiles that are told about at a time: one ahead of the fetching warpgroup, and the multiplying ones are at most
// kStages tiles behind it.
constexpr uint32_t kQueue = 8;
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
  uint32_t tile_told;    // [kQueue] barriers of `tiles`
  uint32_t tiles;        // [kQueue] the cluster's tiles, in turn
  int32_t* tile_starts;  // [E + 1]
  int32_t* offsets;      // [E + 1]

  static constexpr uint32_t kBarrierBytes = (2 * kStages + kQueue) * 8 + kQueue * 4;
  [[nodiscard]] static size_t size_bytes(int32_t experts) {
    return 1024 + kStages * kStageBytes + kBarrierBytes + 2 * (static_cast<size_t>(experts) + 1) * sizeof(int32_t);
  }
  __device__ Shared(unsigned char* memory, int32_t experts) {
    const uint32_t begin = ptx::shared_address(memory);
    const uint32_t skip = (1024 - begin % 1024) % 1024;
    stages = begin + skip;
    full = stages + kStages * kStageBytes;
    empty = full + kStages * 8;
    tile_told = empty + kStages * 8;
    tiles = tile_told + kQueue * 8;
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

// Tiles of an expert that share weights come one after another, so that neighbouring clusters read them together; of an
// expert with many slots, kBand at a time, so that their rows stay in L2. The slots of an expert's last tile are dealt
// out by 64, so that both blocks end together.
__device__ Tile locate(const GroupedGemmParams& p, const Shared& shared, int32_t index) {
  const int32_t expert = find_range(shared.tile_starts, p.expert_count, index / p.n_tiles);
  const int32_t first_tile = shared.tile_starts[expert];
  const int32_t local = index - first_tile * p.n_tiles;
  const int32_t m_tiles = shared.tile_starts[expert + 1] - first_tile;
  Tile tile;
  tile.expert = expert;
  constexpr int32_t kBand = 8;
  const int32_t band = local / (kBand * p.n_tiles);
  const int32_t in_band = local - band * kBand * p.n_tiles;
  const int32_t band_tiles = min(m_tiles - band * kBand, kBand);
  tile.n = in_band / band_tiles;
  tile.first = shared.offsets[expert] + (band * kBand + in_band - tile.n * band_tiles) * kTileM;
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

// The cluster's tiles, in turn, as its threads hear of them.
class Tiles {
 public:
  __device__ Tiles(const GroupedGemmParams& p, const Shared& shared)
      : p_(p), shared_(shared), count_(shared.tile_starts[p.expert_count] * p.n_tiles) {}

  /// Finds the next one, if there is one. Waits until it is known.
  __device__ bool next(Tile& tile) {
    const uint32_t place = turn_ % kQueue;
    ptx::wait_barrier(shared_.tile_told + place * 8, turn_ / kQueue % 2);
    const int32_t index = ptx::load_4(shared_.tiles + place * 4);
    ++turn_;
    if (index >= count_) return false;
    tile = locate(p_, shared_, index);
    return true;
  }

 private:
  const GroupedGemmParams& p_;
  const Shared& shared_;
  int32_t count_;
  uint32_t turn_ = 0;
};

// One thread of each block; that of the first takes the cluster's tiles from the counter and tells both.
class TileTaker {
 public:
  __device__ TileTaker(const GroupedGemmParams& p, const Shared& shared) : p_(p), shared_(shared) {}

  __device__ void take() {
    const uint32_t place = turn_ % kQueue;
    ++turn_;
    ptx::arrive_expecting(shared_.tile_told + place * 8, sizeof(int32_t));
    if (ptx::cluster_rank() != 0) return;
    const int32_t index = atomicAdd(p_.next_tile, 1);
    for (uint32_t block = 0; block < kBlocks; ++block)
      ptx::store_4_in_cluster(ptx::cluster_address(shared_.tiles + place * 4, block), index,
                              ptx::cluster_address(shared_.tile_told + place * 8, block));
  }

 private:
  const GroupedGemmParams& p_;
  const Shared& shared_;
  uint32_t turn_ = 0;
};

// What one of the fetching threads copies: a chunk of every kRowsApart-th of a tile's rows of x.
class FetchRows {
 public:
  static constexpr int32_t kRowsApart = kGroupThreads / 8;
  static constexpr int32_t kCount = kBlockRows / kRowsApart;

  __device__ explicit FetchRows(const GroupedGemmParams& p)
      : p_(p), first_(static_cast<int32_t>(threadIdx.x) / 8), chunk_(static_cast<int32_t>(threadIdx.x) % 8) {}

  /// Asks where the next tile's rows are.
  __device__ void find_next(const Tile& tile) {
    next_rows_ = tile.rows;
#pragma unroll
    for (int32_t i = 0; i < kCount; ++i) {
      const int32_t row = first_ + i * kRowsApart;
      const int32_t slot = tile.first + (row < tile.rows ? row : 0);
      next_[i] = p_.rows == nullptr ? slot : p_.rows[slot];
    }
  }
  /// From now on it is the tile's turn.
  __device__ void advance() {
    tile_rows_ = next_rows_;
#pragma unroll
    for (int32_t i = 0; i < kCount; ++i)
      rows_[i] = static_cast<uint32_t>(next_[i]) * static_cast<uint32_t>(p_.x_stride / kChunkElements);
  }
  /// Copies what step k needs; rows beyond the tile's are zero.
  __device__ void copy(int32_t k, uint32_t shared_x) const {
    const auto* x = reinterpret_cast<const uint4*>(p_.x);
    const int32_t at = k * static_cast<int32_t>(kTileK / kChunkElements) + chunk_;
    const bool exists = at < static_cast<int32_t>(p_.k / kChunkElements);
    const uint32_t to = shared_x + static_cast<uint32_t>(chunk_offset(first_, chunk_));
#pragma unroll
    for (int32_t i = 0; i < kCount; ++i) {
      const bool valid = exists && first_ + i * kRowsApart < tile_rows_;
      const uint32_t from = rows_[i] + static_cast<uint32_t>(at);
      ptx::copy_async_16(to + i * kRowsApart * static_cast<uint32_t>(kRowBytes), x + (valid ? from : 0), valid);
    }
  }

 private:
  const GroupedGemmParams& p_;
  int32_t first_;
  int32_t chunk_;
  int32_t tile_rows_ = 0;
  int32_t next_rows_ = 0;
  uint32_t rows_[kCount] = {};  // where they begin, in chunks
  int32_t next_[kCount] = {};   // rows of x
};

__device__ void fetch(const GroupedGemmParams& p, const Shared& shared) {
  const uint32_t part = ptx::cluster_rank() * kWeightPartBytes;  // that this block fetches for both
  const bool first = threadIdx.x == 0;
  FetchRows rows(p);
  Tiles tiles(p, shared);
  TileTaker taker(p, shared);
  Turn turn;
  Tile next;
  if (first) taker.take();
  bool more = tiles.next(next);
  if (more) rows.find_next(next);
  while (more) {
    const Tile tile = next;
    rows.advance();
    if (first) taker.take();
    const std::byte* weights = p.experts[tile.expert] + p.weight_offset +
                               int64_t{tile.n} * p.k_tiles * static_cast<int64_t>(kTileBytes) + part;
    for (int32_t k = 0; k < p.k_tiles; ++k) {
      ptx::wait_barrier(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const uint32_t full = shared.full + turn.stage * 8;
      if (first) {
        ptx::arrive_expecting(full, kWeightBytes);
        ptx::copy_bulk_to_cluster(shared.weights(turn.stage) + part, weights + k * static_cast<int64_t>(kTileBytes),
                                  kWeightPartBytes, full, (1 << kBlocks) - 1);
      }
      rows.copy(k, shared.x(turn.stage));
      ptx::arrive_after_copies(full);
      turn.next();
      // The next tile, long before it is needed, but when it has been told.
      if (k == (p.k_tiles - 1) / 2) {
        more = tiles.next(next);
        if (more) rows.find_next(next);
      }
    }
  }
}

// A thread's results: for each group of eight columns two of row lane / 4 and two of row lane / 4 + 8.
using Sums = float[kTileN / 2];

// Eight features of a lane's row, as they are stored. `half` tells its two rows apart.
struct Words {
  uint32_t word[4];
};

// Of one of the tile's blocks of 32 features that a pair of gate and up makes, 64 rows of weights.
__device__ Words gate_up_words(const GroupedGemmParams& p, const Sums& d, int32_t n, int32_t block, int32_t half,
                               int32_t lane) {
  Words words;
#pragma unroll
  for (int32_t j = 0; j < 4; ++j) {
    const int32_t gate = (block * 8 + 2 * j) * 4 + 2 * half;
    const int32_t up = gate + 4;
    words.word[j] = pack_bf16(silu(d[gate]) * d[up], silu(d[gate + 1]) * d[up + 1]);
  }
  const int64_t feature = n * kGateUpFeatures + block * 32 + lane % 4 * 8;
  if (feature + 8 > p.out_columns) {
    // A row with infinities has NaN where there are no weights.
#pragma unroll
    for (int32_t j = 0; j < 4; ++j) {
      if (feature + 2 * j >= p.out_columns) words.word[j] = 0;
      if (feature + 2 * j + 1 >= p.out_columns) words.word[j] &= 0xffffu;
    }
  }
  return words;
}

// Of one of the tile's blocks of 32 features.
__device__ Words down_words(const Sums& d, int32_t block, int32_t half) {
  Words words;
#pragma unroll
  for (int32_t j = 0; j < 4; ++j) {
    const int32_t at = (block * 4 + j) * 4 + 2 * half;
    words.word[j] = pack_bf16(d[at], d[at + 1]);
  }
  return words;
}

// Stores a warp's sixteen rows, of which `rows` exist, to `out` and the rows after it. Four lanes have 64 bytes of a
// row's block, four more those of the next row: the lanes of an even and an odd row trade, so that a store writes 128
// bytes of four rows rather than 64 of eight. What is stored need not stay in L2, where it would be in the way of
// weights and rows.
template <bool kGateUp>
__device__ void store_rows(const GroupedGemmParams& p, const Sums& d, int32_t n, int32_t rows, Bits16* out) {
  constexpr int32_t kFeatures = kGateUp ? kGateUpFeatures : kTileN;
  constexpr int32_t kRowLanes = 4;
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t odd = lane / kRowLanes % 2;
  const int64_t columns = kGateUp ? p.out_stride : p.out_columns;
#pragma unroll
  for (int32_t half = 0; half < 2; ++half) {
    const int32_t row = lane / kRowLanes + 8 * half - odd;  // the even one
    Bits16* even_row = out + row * p.out_stride;
#pragma unroll
    for (int32_t block = 0; block < kFeatures / 32; block += 2) {
      Words first;
      Words second;
      if constexpr (kGateUp) {
        first = gate_up_words(p, d, n, block, half, lane);
        second = gate_up_words(p, d, n, block + 1, half, lane);
      } else {
        first = down_words(d, block, half);
        second = down_words(d, block + 1, half);
      }
      // An even row's lanes keep its first block and the odd row's, an odd one's both second blocks.
      Words even;
      Words of_odd;
#pragma unroll
      for (int32_t j = 0; j < 4; ++j) {
        const uint32_t given = odd != 0 ? first.word[j] : second.word[j];
        const uint32_t got = __shfl_xor_sync(0xffffffffu, given, kRowLanes);
        even.word[j] = odd != 0 ? got : first.word[j];
        of_odd.word[j] = odd != 0 ? second.word[j] : got;
      }
      const int64_t feature = n * kFeatures + (block + odd) * 32 + lane % kRowLanes * 8;
      if (feature >= columns) continue;
      auto* to = reinterpret_cast<uint4*>(even_row + feature);
      auto* to_odd = reinterpret_cast<uint4*>(even_row + p.out_stride + feature);
      if (row < rows) __stcs(to, make_uint4(even.word[0], even.word[1], even.word[2], even.word[3]));
      if (row + 1 < rows) __stcs(to_odd, make_uint4(of_odd.word[0], of_odd.word[1], of_odd.word[2], of_odd.word[3]));
    }
  }
}

template <bool kGateUp>
__device__ void multiply(const GroupedGemmParams& p, const Shared& shared) {
  const auto group = static_cast<int32_t>(threadIdx.x) / kGroupThreads - 1;
  const auto thread = static_cast<int32_t>(threadIdx.x) % kGroupThreads;
  const int32_t lane = thread % kWarp;
  // A lane for each block of the cluster tells it that a buffer is empty.
  const bool reports = lane < kBlocks;
  const uint32_t empty = ptx::cluster_address(shared.empty, reports ? static_cast<uint32_t>(lane) : 0);
  Turn turn;
  float d[kTileN / 2] = {};
  Tiles tiles(p, shared);
  Tile next;
  bool more = tiles.next(next);
  while (more) {
    const Tile tile = next;
    const int32_t rows_left = tile.rows - group * kGroupRows;
    if (rows_left <= 0) {
      // Nothing to multiply, but the buffers go round, once all lanes know which tile this is.
      __syncwarp();
      for (int32_t k = 0; k < p.k_tiles; ++k, turn.next()) {
        ptx::wait_barrier(shared.full + turn.stage * 8, turn.parity);
        if (reports) ptx::arrive_in_cluster(empty + turn.stage * 8);
      }
      more = tiles.next(next);
      continue;
    }
    ptx::pin_registers(d);
    int32_t previous = 0;
    for (int32_t k = 0; k < p.k_tiles; ++k) {
      ptx::wait_barrier(shared.full + turn.stage * 8, turn.parity);
      ptx::fence_async_proxy();  // rows of x were written by threads, as far as wgmma is concerned
      const uint64_t a = ptx::describe_matrix(shared.x(turn.stage) + group * kGroupRows * kRowBytes, 16, 1024);
      const uint64_t b = ptx::describe_matrix(shared.weights(turn.stage), 16, 1024);
      ptx::begin_products();
#pragma unroll
      for (int32_t step = 0; step < kTileK / 16; ++step)
        ptx::multiply_64x256x16(d, a + 2 * step, b + 2 * step, k > 0 || step > 0);
      ptx::commit_products();
      if (k == p.k_tiles - 1) more = tiles.next(next);  // while the products run
      // The products of the buffer before have ended once only this one's are under way.
      ptx::wait_products<1>();
      if (k > 0 && reports) ptx::arrive_in_cluster(empty + previous * 8);
      previous = turn.stage;
      turn.next();
    }
    ptx::wait_products<0>();
    ptx::pin_registers(d);
    if (reports) ptx::arrive_in_cluster(empty + previous * 8);

    const int32_t warp_row = thread / kWarp * 16;
    store_rows<kGateUp>(p, d, tile.n, rows_left - warp_row,
                        p.out + (int64_t{tile.first} + group * kGroupRows + warp_row) * p.out_stride);
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
    for (uint32_t place = 0; place < kQueue; ++place) ptx::init_barrier(shared.tile_told + place * 8, 1);
    ptx::publish_barriers();
  }
  ptx::sync_cluster();
  if (threadIdx.x < kGroupThreads) {
    ptx::fewer_registers<kFetchRegisters>();
    fetch(p, shared);
  } else {
    ptx::more_registers<kMultiplyRegisters>();
    multiply<kGateUp>(p, shared);
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
  (void)cudaMemsetAsync(params.next_tile, 0, sizeof(int32_t), stream);
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
