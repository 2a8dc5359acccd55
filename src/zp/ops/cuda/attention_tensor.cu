// Attention on the tensor cores (wgmma), for head dimensions 64 and 128. A block has 128 rows of queries and goes
// through the keys in tiles of 128:
//   - the first warpgroup fetches keys and values, by block of 16 tokens wherever they are, with cp.async, up to three
//     tiles ahead;
//   - the two others have 64 rows each. While a warpgroup's product of weights and values runs, it already has the next
//     tile's scores made, and turns them into weights; and while one warpgroup does that, the other's products run.
//
// Key tiles begin at multiples of 128 tokens from position 0, and a row's running maximum and sum change only with keys
// that it sees. So its bits depend neither on the rows beside it nor on which part of its context was cached.
#include <cmath>

#include "zp/ops/cuda/attention_kernels.h"
#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/ptx_async.cuh"
#include "zp/ops/cuda/ptx_wgmma.cuh"

namespace zp::cuda {
namespace {

constexpr int32_t kGroupThreads = 128;
constexpr int32_t kThreads = 3 * kGroupThreads;
constexpr int32_t kRows = kTensorTileRows;
constexpr int32_t kGroupRows = 64;
constexpr int32_t kKeys = 128;
constexpr int32_t kStages = 3;
// Together, what 168 registers a thread at the start add up to.
constexpr uint32_t kFetchRegisters = 56;
constexpr uint32_t kMultiplyRegisters = 224;

// A tile of 128 rows in shared memory: for each 64 columns, rows of 128 swizzled bytes.
template <int32_t kDim>
struct Layout {
  static constexpr int32_t kChunks = kDim / 8;  // of 16 bytes, a row
  static constexpr uint32_t kHalfBytes = 128 * 128;
  static constexpr uint32_t kTileBytes = kHalfBytes * (kDim / 64);

  __device__ static uint32_t chunk(int32_t row, int32_t c) {
    return static_cast<uint32_t>(c / 8) * kHalfBytes + static_cast<uint32_t>(row) * 128 +
           static_cast<uint32_t>((c % 8) ^ (row % 8)) * 16;
  }
};

// Addresses in shared memory, from one aligned to the swizzle's 1024 bytes.
template <int32_t kDim>
struct Shared {
  static constexpr uint32_t kTile = Layout<kDim>::kTileBytes;
  static constexpr uint32_t kBarrierBytes = 4 * kStages * 8;
  static constexpr size_t kBytes = 1024 + (1 + 2 * kStages) * kTile + kBarrierBytes;

  uint32_t begin;

  __device__ explicit Shared(const unsigned char* memory) : begin((ptx::shared_address(memory) + 1023) / 1024 * 1024) {}
  [[nodiscard]] __device__ uint32_t queries() const { return begin; }
  [[nodiscard]] __device__ uint32_t keys(int32_t tile) const { return begin + (1 + tile % kStages) * kTile; }
  [[nodiscard]] __device__ uint32_t values(int32_t tile) const {
    return begin + (1 + kStages + tile % kStages) * kTile;
  }
  [[nodiscard]] __device__ uint32_t barrier(int32_t kind, int32_t tile) const {
    return begin + (1 + 2 * kStages) * kTile + static_cast<uint32_t>(kind * kStages + tile % kStages) * 8;
  }
  [[nodiscard]] __device__ uint32_t keys_full(int32_t tile) const { return barrier(0, tile); }
  [[nodiscard]] __device__ uint32_t keys_empty(int32_t tile) const { return barrier(1, tile); }
  [[nodiscard]] __device__ uint32_t values_full(int32_t tile) const { return barrier(2, tile); }
  [[nodiscard]] __device__ uint32_t values_empty(int32_t tile) const { return barrier(3, tile); }
};

// Which phase of its barriers a tile is.
__device__ uint32_t parity_of(int32_t tile) { return static_cast<uint32_t>(tile / kStages) & 1; }

// What a block works on.
struct Work {
  AttentionSpan span;
  int32_t first_row;
  int32_t rows;  // of the whole sequence: tokens times group
  int32_t group;
  int32_t kv_head;
  int32_t key_tiles;

  __device__ explicit Work(const AttentionParams& p) {
    const AttentionTile tile = p.tiles[blockIdx.x];
    span = p.spans[tile.span];
    first_row = tile.first_row;
    group = p.q_heads / p.kv_heads;
    rows = span.tokens * group;
    kv_head = static_cast<int32_t>(blockIdx.y);
    const int32_t last_row = min(first_row + kRows, rows) - 1;
    key_tiles = (span.context + last_row / group) / kKeys + 1;
  }
  /// Where row r of the sequence begins in q and out.
  [[nodiscard]] __device__ int64_t offset(const AttentionParams& p, int32_t r) const {
    return ((span.row + r / group) * p.q_heads + kv_head * group + r % group) * p.head_dim;
  }
};

// The first warpgroup. A thread copies one chunk of every kRowsApart-th row.
template <int32_t kDim>
class Fetch {
 public:
  __device__ Fetch(const AttentionParams& p, const Work& work, const Shared<kDim>& shared)
      : p_(p),
        work_(work),
        shared_(shared),
        first_(static_cast<int32_t>(threadIdx.x) / kChunks),
        chunk_(static_cast<int32_t>(threadIdx.x) % kChunks),
        to_(Layout<kDim>::chunk(first_, chunk_)),
        total_(work.span.context + work.span.tokens),
        row_bytes_(int64_t{p.kv_heads} * kDim * static_cast<int64_t>(sizeof(Bits16))),
        offset_(first_ * row_bytes_ + work.kv_head * int64_t{kDim} * 2 + chunk_ * 16) {}

  // Keys come first, since a tile's scores are made before the values of the tile before are needed: keys 0, keys 1,
  // values 0, keys 2, values 1, and so on; item 2n - 1 is the last values.
  __device__ void run() {
    queries();
    const int32_t items = 2 * work_.key_tiles;
    int32_t published = 0;
    KvBlock next = find_blocks(0);                  // of the next tile of keys
    const std::byte* values[2] = {next.v, next.v};  // of the last tile of keys, and of the one before
    for (int32_t item = 0; item < items; ++item) {
      const int32_t tile = tile_of(item);
      const uint32_t empty = is_keys(item) ? shared_.keys_empty(tile) : shared_.values_empty(tile);
      if (!ptx::test_barrier(empty, parity_of(tile) ^ 1)) {
        // Whoever is to empty it may be waiting for what is under way.
        ptx::wait_copies<0>();
        while (published < item) publish(published++);
        ptx::wait_barrier(empty, parity_of(tile) ^ 1);
      }
      if (is_keys(item)) {
        rows(tile, next.k, shared_.keys(tile));
        values[1] = values[0];
        values[0] = next.v;
        next = find_blocks(tile + 1);  // long before they are needed
      } else {
        rows(tile, item == items - 1 ? values[0] : values[1], shared_.values(tile));
      }
      ptx::commit_copies();
      ptx::wait_copies<kLag>();
      while (published <= item - kLag) publish(published++);
    }
    ptx::wait_copies<0>();
    while (published < items) publish(published++);
  }

 private:
  static constexpr int32_t kLag = 2;  // items that are under way and not yet published
  static constexpr int32_t kChunks = Layout<kDim>::kChunks;
  static constexpr int32_t kRowsApart = kGroupThreads / kChunks;
  static constexpr int32_t kRowsEach = kKeys / kRowsApart;
  static constexpr int32_t kTileBlocks = kKeys / kKvBlockTokens;

  [[nodiscard]] __device__ bool is_keys(int32_t item) const {
    return item == 0 || (item % 2 == 1 && item != 2 * work_.key_tiles - 1);
  }
  [[nodiscard]] __device__ int32_t tile_of(int32_t item) const {
    return is_keys(item) ? (item + 1) / 2 : (item + 1) / 2 - 1;
  }

  __device__ void publish(int32_t item) const {
    ptx::fence_async_proxy();
    const int32_t tile = tile_of(item);
    ptx::arrive(is_keys(item) ? shared_.keys_full(tile) : shared_.values_full(tile));
  }

  // They become visible with the first keys.
  __device__ void queries() const {
#pragma unroll
    for (int32_t i = 0; i < kRowsEach; ++i) {
      const int32_t r = work_.first_row + first_ + i * kRowsApart;
      const bool valid = r < work_.rows;
      const Bits16* from = p_.q + (valid ? work_.offset(p_, r) : 0) + chunk_ * 8;
      ptx::copy_async_16(shared_.queries() + to_ + static_cast<uint32_t>(i * kRowsApart) * 128, from, valid);
    }
  }

  // Where a tile's blocks are, a lane each: those of block lane % kTileBlocks.
  [[nodiscard]] __device__ KvBlock find_blocks(int32_t tile) const {
    const int32_t block = tile * kTileBlocks + static_cast<int32_t>(threadIdx.x) % kTileBlocks;
    return p_.blocks[work_.span.block + min(block, (total_ - 1) / kKvBlockTokens)];
  }

  // Copies this thread's chunks of a tile of keys or values, whose blocks the lanes have.
  __device__ void rows(int32_t tile, const std::byte* block_of_lane, uint32_t shared_tile) const {
    const int32_t left = total_ - tile * kKeys - first_;
#pragma unroll
    for (int32_t block = 0; block < kTileBlocks; ++block) {
      const auto address = __shfl_sync(0xffffffffu, reinterpret_cast<unsigned long long>(block_of_lane), block);
      const auto* from = reinterpret_cast<const std::byte*>(address) + offset_;
#pragma unroll
      for (int32_t row = 0; row < kKvBlockTokens; row += kRowsApart) {
        const int32_t at = block * kKvBlockTokens + row;
        ptx::copy_async_16(shared_tile + to_ + static_cast<uint32_t>(at) * 128, from + row * row_bytes_, at < left);
      }
    }
  }

  const AttentionParams& p_;
  const Work& work_;
  const Shared<kDim>& shared_;
  int32_t first_;
  int32_t chunk_;
  uint32_t to_;        // kRowsApart is a multiple of 8, so all rows of a thread have the same swizzle
  int32_t total_;      // tokens, cached ones included
  int64_t row_bytes_;  // of one token's keys
  int64_t offset_;     // of this thread's first chunk in a block
};

// A consumer warpgroup. A thread has, of each eight columns, two of row lane / 4 and two of row lane / 4 + 8 of its
// warp's sixteen.
template <int32_t kDim>
class Multiply {
 public:
  __device__ Multiply(const AttentionParams& p, const Work& work, const Shared<kDim>& shared)
      : p_(p),
        work_(work),
        shared_(shared),
        group_(static_cast<int32_t>(threadIdx.x) / kGroupThreads - 1),
        thread_(static_cast<int32_t>(threadIdx.x) % kGroupThreads),
        lane_(thread_ % kWarp),
        scale_(p.scale * kLog2E) {
    const int32_t group_row = work.first_row + group_ * kGroupRows;
    all_see_ = group_row < work.rows ? work.span.context + group_row / work.group : 0;
#pragma unroll
    for (int32_t i = 0; i < 2; ++i) {
      const int32_t r = group_row + thread_ / kWarp * 16 + lane_ / 4 + 8 * i;
      position_[i] = r < work.rows ? work.span.context + r / work.group : 0;
    }
  }

  __device__ void run() {
    float scores[kKeys / 2];
    float out[kDim / 2] = {};
    uint32_t weights[kKeys / 16][4];
    // The warpgroups take turns at issuing products; the first one begins.
    if (group_ == 1) ptx::release_threads(kTurnBarrier, 2 * kGroupThreads);
    await_keys(0);
    ptx::sync_threads(kTurnBarrier + group_, 2 * kGroupThreads);
    begin_scores(0, scores);
    ptx::release_threads(kTurnBarrier + 1 - group_, 2 * kGroupThreads);
    ptx::wait_products<0>();
    ptx::pin_registers(scores);
    if (lane_ == 0) ptx::arrive(shared_.keys_empty(0));
    float rescale[2];
    soften(0, scores, rescale);
    pack(scores, weights);
    await_keys(1);
    for (int32_t tile = 1; tile < work_.key_tiles; ++tile) {
      ptx::sync_threads(kTurnBarrier + group_, 2 * kGroupThreads);
      begin_scores(tile, scores);
      ptx::wait_barrier(shared_.values_full(tile - 1), parity_of(tile - 1));
      begin_values(tile - 1, weights, out);
      ptx::release_threads(kTurnBarrier + 1 - group_, 2 * kGroupThreads);
      ptx::wait_products<1>();
      ptx::pin_registers(scores);
      if (lane_ == 0) ptx::arrive(shared_.keys_empty(tile));
      soften(tile, scores, rescale);
      // Here also because the assembler moves a wait for products up to the last branch, before the work above.
      ptx::pin_registers(scores);
      await_keys(tile + 1);
      ptx::wait_products<0>();
      ptx::pin_registers(out);
      ptx::pin_registers(weights);
      if (lane_ == 0) ptx::arrive(shared_.values_empty(tile - 1));
#pragma unroll
      for (int32_t i = 0; i < kDim / 2; ++i) out[i] *= rescale[i / 2 % 2];
      pack(scores, weights);
    }
    // Takes what the second one's last turn let go.
    if (group_ == 0) ptx::sync_threads(kTurnBarrier, 2 * kGroupThreads);
    const int32_t last = work_.key_tiles - 1;
    ptx::wait_barrier(shared_.values_full(last), parity_of(last));
    begin_values(last, weights, out);
    ptx::wait_products<0>();
    ptx::pin_registers(out);
    ptx::pin_registers(weights);
    store(out);
  }

 private:
  static constexpr uint32_t kTurnBarrier = 1;   // and 2: whose turn it is
  static constexpr uint32_t kStoreBarrier = 3;  // and 4: of one warpgroup

  // Waits until the tile's keys are there, if there is such a tile.
  __device__ void await_keys(int32_t tile) const {
    if (tile < work_.key_tiles) ptx::wait_barrier(shared_.keys_full(tile), parity_of(tile));
  }

  // scores = queries * keys of the tile.
  __device__ void begin_scores(int32_t tile, float (&scores)[kKeys / 2]) const {
    const uint64_t a = ptx::describe_matrix(shared_.queries() + group_ * kGroupRows * 128, 16, 1024);
    const uint64_t b = ptx::describe_matrix(shared_.keys(tile), 16, 1024);
    ptx::pin_registers(scores);
    ptx::begin_products();
#pragma unroll
    for (int32_t step = 0; step < kDim / 16; ++step) {
      const uint32_t offset = (step / 4 * Layout<kDim>::kHalfBytes + step % 4 * 32) / 16;
      ptx::multiply_64x128x16(scores, a + offset, b + offset, step > 0);
    }
    ptx::commit_products();
  }

  // out += weights * values of the tile.
  __device__ void begin_values(int32_t tile, uint32_t (&weights)[kKeys / 16][4], float (&out)[kDim / 2]) const {
    const uint64_t b = ptx::describe_matrix(shared_.values(tile), Layout<kDim>::kHalfBytes, 1024);
    ptx::pin_registers(weights);
    ptx::pin_registers(out);
    ptx::begin_products();
#pragma unroll
    for (int32_t step = 0; step < kKeys / 16; ++step)
      ptx::multiply_registers(out, weights[step], b + step * 16 * 128 / 16, true);
    ptx::commit_products();
  }

  // Turns scores into weights relative to the running maximum, which has grown by 1 / rescale.
  __device__ void soften(int32_t tile, float (&scores)[kKeys / 2], float (&rescale)[2]) {
    const int32_t first = tile * kKeys;
    if (first + kKeys - 1 > all_see_) {
#pragma unroll
      for (int32_t i = 0; i < kKeys / 2; ++i) {
        const int32_t key = first + i / 4 * 8 + lane_ % 4 * 2 + i % 2;
        if (key > position_[i / 2 % 2]) scores[i] = -INFINITY;
      }
    }
    float tops[2][2] = {{top_[0], scores[0]}, {top_[1], scores[2]}};  // two a row: half as long a chain
#pragma unroll
    for (int32_t i = 0; i < kKeys / 2; ++i) tops[i / 2 % 2][i % 2] = fmaxf(tops[i / 2 % 2][i % 2], scores[i]);
    float top[2];
#pragma unroll
    for (int32_t i = 0; i < 2; ++i) {
      top[i] = fmaxf(tops[i][0], tops[i][1]);
      top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 1));
      top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 2));
      rescale[i] = ptx::exp2_fast((top_[i] - top[i]) * scale_);
      top_[i] = top[i];
      sum_[i] *= rescale[i];
    }
    const float below[2] = {-top[0] * scale_, -top[1] * scale_};
#pragma unroll
    for (int32_t i = 0; i < kKeys / 2; ++i) {
      scores[i] = ptx::exp2_fast(fmaf(scores[i], scale_, below[i / 2 % 2]));
      sum_[i / 2 % 2] += scores[i];
    }
  }

  // To the fragments of a product's left side.
  __device__ static void pack(const float (&scores)[kKeys / 2], uint32_t (&weights)[kKeys / 16][4]) {
#pragma unroll
    for (int32_t step = 0; step < kKeys / 16; ++step) {
#pragma unroll
      for (int32_t i = 0; i < 4; ++i)
        weights[step][i] = pack_bf16(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1]);
    }
  }

  // By way of the queries' place in shared memory, which this warpgroup alone has read, so that rows are written whole.
  __device__ void store(const float (&out)[kDim / 2]) {
    const uint32_t rows = shared_.queries() + group_ * kGroupRows * 128;
#pragma unroll
    for (int32_t i = 0; i < 2; ++i) {
      sum_[i] += __shfl_xor_sync(0xffffffffu, sum_[i], 1);
      sum_[i] += __shfl_xor_sync(0xffffffffu, sum_[i], 2);
      const float inverse = 1.0f / sum_[i];
      const int32_t row = thread_ / kWarp * 16 + lane_ / 4 + 8 * i;
#pragma unroll
      for (int32_t c = 0; c < kDim / 8; ++c)
        ptx::store_shared(rows + Layout<kDim>::chunk(row, c) + lane_ % 4 * 4,
                          pack_bf16(out[4 * c + 2 * i] * inverse, out[4 * c + 2 * i + 1] * inverse));
    }
    ptx::sync_threads(kStoreBarrier + group_, kGroupThreads);
    constexpr int32_t kChunks = Layout<kDim>::kChunks;
    constexpr int32_t kRowsApart = kGroupThreads / kChunks;
    const int32_t chunk = thread_ % kChunks;
    for (int32_t row = thread_ / kChunks; row < kGroupRows; row += kRowsApart) {
      const int32_t r = work_.first_row + group_ * kGroupRows + row;
      if (r >= work_.rows) break;
      *reinterpret_cast<uint4*>(p_.out + work_.offset(p_, r) + chunk * 8) =
          ptx::load_shared(rows + Layout<kDim>::chunk(row, chunk));
    }
  }

  const AttentionParams& p_;
  const Work& work_;
  const Shared<kDim>& shared_;
  int32_t group_;
  int32_t thread_;
  int32_t lane_;
  float scale_;
  int32_t all_see_;      // the last key that every row of the warpgroup sees
  int32_t position_[2];  // the last key that a row sees
  float top_[2] = {-INFINITY, -INFINITY};
  float sum_[2] = {0, 0};
};

template <int32_t kDim>
__global__ void __launch_bounds__(kThreads, 1) attention_tensor_kernel(const __grid_constant__ AttentionParams p) {
  extern __shared__ unsigned char memory[];
  const Shared<kDim> shared(memory);
  const Work work(p);
  if (threadIdx.x == 0) {
    for (int32_t stage = 0; stage < kStages; ++stage) {
      ptx::init_barrier(shared.keys_full(stage), kGroupThreads);
      ptx::init_barrier(shared.values_full(stage), kGroupThreads);
      ptx::init_barrier(shared.keys_empty(stage), 2 * kGroupThreads / kWarp);
      ptx::init_barrier(shared.values_empty(stage), 2 * kGroupThreads / kWarp);
    }
    ptx::publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x < kGroupThreads) {
    ptx::fewer_registers<kFetchRegisters>();
    Fetch<kDim>(p, work, shared).run();
  } else {
    ptx::more_registers<kMultiplyRegisters>();
    Multiply<kDim>(p, work, shared).run();
  }
}

template <int32_t kDim>
void launch(const AttentionParams& params, cudaStream_t stream) {
  (void)cudaFuncSetAttribute(attention_tensor_kernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(Shared<kDim>::kBytes));
  const dim3 grid(static_cast<unsigned>(params.tile_count), static_cast<unsigned>(params.kv_heads));
  attention_tensor_kernel<kDim><<<grid, kThreads, Shared<kDim>::kBytes, stream>>>(params);
}

}  // namespace

void launch_attention_tensor(const AttentionParams& params, cudaStream_t stream) {
  if (params.head_dim == 64)
    launch<64>(params, stream);
  else
    launch<128>(params, stream);
}

}  // namespace zp::cuda
