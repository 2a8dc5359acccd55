// Attention on the tensor cores (wgmma), for head dimensions 64 and 128. Blocks, one a multiprocessor, take 128 rows of
// queries after 128 rows, and go through their keys in tiles of 128:
//   - the first warpgroup fetches keys and values, by block of 16 tokens wherever they are, with cp.async, up to three
//     tiles ahead; also the next rows and their keys while the last ones are worked on;
//   - the two others have 64 rows each. While a warpgroup's product of weights and values runs, it already has the next
//     tile's scores made, and turns them into weights; and while one warpgroup does that, the other's products run.
//
// Key tiles begin at multiples of 128 tokens from position 0, and a row's running maximum and sum change only with keys
// that it sees. So its bits depend neither on the rows beside it nor on which part of its context was cached.
#include <algorithm>
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
  static constexpr uint32_t kBarrierBytes = (4 * kStages + 1) * 8;
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
  [[nodiscard]] __device__ uint32_t queries_empty() const { return barrier(4, 0); }
};

// Which phase of its barriers a tile is. Tiles are counted from the block's first, over all its work.
__device__ uint32_t parity_of(int32_t tile) { return static_cast<uint32_t>(tile / kStages) & 1; }

// Rows of queries of one kv head.
struct Work {
  AttentionSpan span;
  int32_t first_row;  // of the sequence; a row is token times group + query head
  int32_t rows;       // from there on
  int32_t kv_head;
  int32_t first_token;  // of the first row
  int32_t first_head;
  int32_t key_tiles;
};

// Which token and query head a row of some work is.
class RowMap {
 public:
  __device__ explicit RowMap(const AttentionParams& p)
      : p_(p), group_(p.q_heads / p.kv_heads), inverse_(0xffffffffu / static_cast<uint32_t>(group_) + 1) {}

  [[nodiscard]] __device__ int32_t group() const { return group_; }
  /// Fresh token of row `row` of the work.
  [[nodiscard]] __device__ int32_t token(const Work& work, int32_t row) const {
    return work.first_token + divide(work.first_head + row);
  }
  /// Where that row begins in q and out.
  [[nodiscard]] __device__ int64_t offset(const Work& work, int32_t row) const {
    const int32_t at = work.first_head + row;
    const int32_t tokens = divide(at);
    const int32_t head = work.kv_head * group_ + at - tokens * group_;
    return ((work.span.row + work.first_token + tokens) * p_.q_heads + head) * p_.head_dim;
  }

 private:
  // By the group; exact since the product of the two is below 2^32: less than group + kRows rows, of few heads.
  [[nodiscard]] __device__ int32_t divide(int32_t rows) const {
    return group_ == 1 ? rows : static_cast<int32_t>(__umulhi(static_cast<uint32_t>(rows), inverse_));
  }

  const AttentionParams& p_;
  int32_t group_;
  uint32_t inverse_;  // 2^32 / group, rounded up
};

// What a block works on, one after another. Every round goes through all blocks, every other one backwards, since the
// work gets shorter. What is to be read about the next work is asked for while this one runs.
class Works {
 public:
  __device__ explicit Works(const AttentionParams& p, const RowMap& map)
      : p_(p), map_(map), count_(static_cast<int32_t>(p.tile_count) * p.kv_heads), after_(tile(0)) {
    advance();
  }

  /// The next one, if there is one.
  __device__ bool take(Work& work) {
    const int32_t index = index_of(round_);
    if (index >= count_) return false;
    work.span = span_;
    work.first_row = tile_.first_row;
    work.rows = span_.tokens * map_.group() - tile_.first_row;
    work.kv_head = index / static_cast<int32_t>(p_.tile_count);
    work.first_token = tile_.first_row / map_.group();
    work.first_head = tile_.first_row - work.first_token * map_.group();
    const int32_t last_token = map_.token(work, min(kRows, work.rows) - 1);
    work.key_tiles = (span_.context + last_token) / kKeys + 1;
    ++round_;
    advance();
    return true;
  }

 private:
  [[nodiscard]] __device__ static int32_t index_of(int32_t round) {
    const auto block = static_cast<int32_t>(blockIdx.x);
    const auto blocks = static_cast<int32_t>(gridDim.x);
    return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
  }
  // Of a round, or any if there is none.
  [[nodiscard]] __device__ AttentionTile tile(int32_t round) const {
    return p_.tiles[min(index_of(round), count_ - 1) % static_cast<int32_t>(p_.tile_count)];
  }
  __device__ void advance() {
    tile_ = after_;
    span_ = p_.spans[tile_.span];
    after_ = tile(round_ + 1);
  }

  const AttentionParams& p_;
  const RowMap& map_;
  int32_t count_;
  int32_t round_ = 0;
  AttentionTile tile_;
  AttentionSpan span_;
  AttentionTile after_;
};

// The first warpgroup. A thread copies one chunk of every kRowsApart-th row.
template <int32_t kDim>
class Fetch {
 public:
  __device__ Fetch(const AttentionParams& p, const RowMap& map, const Shared<kDim>& shared)
      : p_(p),
        map_(map),
        shared_(shared),
        first_(static_cast<int32_t>(threadIdx.x) / kChunks),
        chunk_(static_cast<int32_t>(threadIdx.x) % kChunks),
        to_(Layout<kDim>::chunk(first_, chunk_)),
        row_bytes_(int64_t{p.kv_heads} * kDim * static_cast<int64_t>(sizeof(Bits16))) {}

  // Keys come first, since a tile's scores are made before the values of the tile before are needed: keys 0, keys 1,
  // values 0, keys 2, values 1, and so on; item 2n - 1 is the last values.
  __device__ void run(const Work& work) {
    total_ = work.span.context + work.span.tokens;
    key_tiles_ = work.key_tiles;
    offset_ = first_ * row_bytes_ + (int64_t{work.kv_head} * kDim + chunk_ * 8) * static_cast<int64_t>(sizeof(Bits16));
    const int32_t items = 2 * key_tiles_;
    int32_t published = 0;
    KvBlock next = find_blocks(work, 0);            // of the next tile of keys
    const std::byte* values[2] = {next.v, next.v};  // of the last tile of keys, and of the one before
    ptx::wait_barrier(shared_.queries_empty(), works_++ % 2 ^ 1);
    queries(work);
    for (int32_t item = 0; item < items; ++item) {
      const int32_t tile = tile_of(item);
      const uint32_t empty = is_keys(item) ? shared_.keys_empty(before_ + tile) : shared_.values_empty(before_ + tile);
      const uint32_t parity = parity_of(before_ + tile) ^ 1;
      if (!ptx::test_barrier(empty, parity)) {
        // Whoever is to empty it may be waiting for what is under way.
        ptx::wait_copies<0>();
        while (published < item) publish(published++);
        ptx::wait_barrier(empty, parity);
      }
      if (is_keys(item)) {
        rows(tile, next.k, shared_.keys(before_ + tile));
        values[1] = values[0];
        values[0] = next.v;
        next = find_blocks(work, tile + 1);  // long before they are needed
      } else {
        rows(tile, item == items - 1 ? values[0] : values[1], shared_.values(before_ + tile));
      }
      ptx::commit_copies();
      ptx::wait_copies<kLag>();
      while (published <= item - kLag) publish(published++);
    }
    ptx::wait_copies<0>();
    while (published < items) publish(published++);
    before_ += key_tiles_;
  }

 private:
  static constexpr int32_t kLag = 2;  // items that are under way and not yet published
  static constexpr int32_t kChunks = Layout<kDim>::kChunks;
  static constexpr int32_t kRowsApart = kGroupThreads / kChunks;
  static constexpr int32_t kRowsEach = kKeys / kRowsApart;
  static constexpr int32_t kTileBlocks = kKeys / kKvBlockTokens;

  [[nodiscard]] __device__ bool is_keys(int32_t item) const {
    return item == 0 || (item % 2 == 1 && item != 2 * key_tiles_ - 1);
  }
  [[nodiscard]] __device__ int32_t tile_of(int32_t item) const {
    return is_keys(item) ? (item + 1) / 2 : (item + 1) / 2 - 1;
  }

  __device__ void publish(int32_t item) const {
    ptx::fence_async_proxy();
    const int32_t tile = before_ + tile_of(item);
    ptx::arrive(is_keys(item) ? shared_.keys_full(tile) : shared_.values_full(tile));
  }

  // They become visible with the first keys.
  __device__ void queries(const Work& work) const {
#pragma unroll
    for (int32_t i = 0; i < kRowsEach; ++i) {
      const int32_t row = first_ + i * kRowsApart;
      const bool valid = row < work.rows;
      const Bits16* from = p_.q + map_.offset(work, valid ? row : 0) + chunk_ * 8;
      ptx::copy_async_16(shared_.queries() + to_ + static_cast<uint32_t>(i * kRowsApart) * 128, from, valid);
    }
  }

  // Where a tile's blocks are, a lane each: those of block lane % kTileBlocks.
  [[nodiscard]] __device__ KvBlock find_blocks(const Work& work, int32_t tile) const {
    const int32_t block = tile * kTileBlocks + static_cast<int32_t>(threadIdx.x) % kTileBlocks;
    return p_.blocks[work.span.block + min(block, (total_ - 1) / kKvBlockTokens)];
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
  const RowMap& map_;
  const Shared<kDim>& shared_;
  int32_t first_;
  int32_t chunk_;
  uint32_t to_;        // kRowsApart is a multiple of 8, so all rows of a thread have the same swizzle
  int64_t row_bytes_;  // of one token's keys
  uint32_t works_ = 0;
  int32_t before_ = 0;  // key tiles of the work before
  // Of this work:
  int32_t total_ = 0;  // tokens, cached ones included
  int32_t key_tiles_ = 0;
  int64_t offset_ = 0;  // of this thread's first chunk in a block
};

// A consumer warpgroup. A thread has, of each eight columns, two of row lane / 4 and two of row lane / 4 + 8 of its
// warp's sixteen.
template <int32_t kDim>
class Multiply {
 public:
  __device__ Multiply(const AttentionParams& p, const RowMap& map, const Shared<kDim>& shared)
      : p_(p),
        map_(map),
        shared_(shared),
        group_(static_cast<int32_t>(threadIdx.x) / kGroupThreads - 1),
        thread_(static_cast<int32_t>(threadIdx.x) % kGroupThreads),
        lane_(thread_ % kWarp),
        scale_(p.scale * kLog2E) {
    // The warpgroups take turns at issuing products; the first one begins.
    if (group_ == 1) ptx::release_threads(kTurnBarrier, 2 * kGroupThreads);
  }
  // After the last work: takes what the second one's last turn let go.
  __device__ void end() const {
    if (group_ == 0) ptx::sync_threads(kTurnBarrier, 2 * kGroupThreads);
  }

  __device__ void run(const Work& work) {
    begin(work);
    float scores[kKeys / 2];
    float out[kDim / 2] = {};
    uint32_t weights[kKeys / 16][4];
    await_keys(0);
    ptx::sync_threads(kTurnBarrier + group_, 2 * kGroupThreads);
    begin_scores(0, scores);
    ptx::release_threads(kTurnBarrier + 1 - group_, 2 * kGroupThreads);
    ptx::wait_products<0>();
    ptx::pin_registers(scores);
    end_scores(0);
    float rescale[2];
    soften(0, scores, rescale);
    pack(scores, weights);
    await_keys(1);
    for (int32_t tile = 1; tile < key_tiles_; ++tile) {
      ptx::sync_threads(kTurnBarrier + group_, 2 * kGroupThreads);
      begin_scores(tile, scores);
      await_values(tile - 1);
      begin_values(tile - 1, weights, out);
      ptx::release_threads(kTurnBarrier + 1 - group_, 2 * kGroupThreads);
      ptx::wait_products<1>();
      ptx::pin_registers(scores);
      end_scores(tile);
      soften(tile, scores, rescale);
      // Here also because the assembler moves a wait for products up to the last branch, before the work above.
      ptx::pin_registers(scores);
      await_keys(tile + 1);
      ptx::wait_products<0>();
      ptx::pin_registers(out);
      ptx::pin_registers(weights);
      if (lane_ == 0) ptx::arrive(shared_.values_empty(before_ + tile - 1));
#pragma unroll
      for (int32_t i = 0; i < kDim / 2; ++i) out[i] *= rescale[i / 2 % 2];
      pack(scores, weights);
    }
    const int32_t last = key_tiles_ - 1;
    await_values(last);
    begin_values(last, weights, out);
    ptx::wait_products<0>();
    ptx::pin_registers(out);
    ptx::pin_registers(weights);
    if (lane_ == 0) ptx::arrive(shared_.values_empty(before_ + last));
    store(work, out);
    before_ += key_tiles_;
  }

 private:
  static constexpr uint32_t kTurnBarrier = 1;  // and 2: whose turn it is

  __device__ void begin(const Work& work) {
    key_tiles_ = work.key_tiles;
    const int32_t first = group_ * kGroupRows;
    all_see_ = first < work.rows ? work.span.context + map_.token(work, first) : 0;
#pragma unroll
    for (int32_t i = 0; i < 2; ++i) {
      const int32_t row = row_of(i);
      position_[i] = row < work.rows ? work.span.context + map_.token(work, row) : 0;
      top_[i] = -INFINITY;
      sum_[i] = 0;
    }
  }
  // Of the work: this thread's row of two.
  [[nodiscard]] __device__ int32_t row_of(int32_t i) const {
    return group_ * kGroupRows + thread_ / kWarp * 16 + lane_ / 4 + 8 * i;
  }

  // Waits until the tile's keys are there, if there is such a tile.
  __device__ void await_keys(int32_t tile) const {
    if (tile < key_tiles_) ptx::wait_barrier(shared_.keys_full(before_ + tile), parity_of(before_ + tile));
  }
  __device__ void await_values(int32_t tile) const {
    ptx::wait_barrier(shared_.values_full(before_ + tile), parity_of(before_ + tile));
  }
  // The tile's keys have been read; after the last, so have the queries.
  __device__ void end_scores(int32_t tile) const {
    if (lane_ != 0) return;
    ptx::arrive(shared_.keys_empty(before_ + tile));
    if (tile == key_tiles_ - 1) ptx::arrive(shared_.queries_empty());
  }

  // scores = queries * keys of the tile.
  __device__ void begin_scores(int32_t tile, float (&scores)[kKeys / 2]) const {
    const uint64_t a = ptx::describe_matrix(shared_.queries() + group_ * kGroupRows * 128, 16, 1024);
    const uint64_t b = ptx::describe_matrix(shared_.keys(before_ + tile), 16, 1024);
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
    const uint64_t b = ptx::describe_matrix(shared_.values(before_ + tile), Layout<kDim>::kHalfBytes, 1024);
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

  // Four threads have a row's columns two by two; they exchange them, so that each stores eight neighbouring ones.
  __device__ void store(const Work& work, const float (&out)[kDim / 2]) {
    const int32_t quarter = lane_ % 4;
#pragma unroll
    for (int32_t i = 0; i < 2; ++i) {
      sum_[i] += __shfl_xor_sync(0xffffffffu, sum_[i], 1);
      sum_[i] += __shfl_xor_sync(0xffffffffu, sum_[i], 2);
      const float inverse = 1.0f / sum_[i];
      const int32_t row = row_of(i);
      const bool valid = row < work.rows;
      Bits16* to = p_.out + map_.offset(work, valid ? row : 0) + quarter * 8;
#pragma unroll
      for (int32_t c = 0; c < kDim / 8; c += 4) {
        uint32_t words[4];
#pragma unroll
        for (int32_t j = 0; j < 4; ++j) {
          const int32_t at = 4 * (c + j) + 2 * i;
          words[j] = pack_bf16(out[at] * inverse, out[at + 1] * inverse);
        }
        exchange<1>(words, quarter);
        exchange<2>(words, quarter);
        if (valid) *reinterpret_cast<uint4*>(to + c * 8) = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }

  // One of two steps that transpose four words of four threads.
  template <int32_t kStep>
  __device__ static void exchange(uint32_t (&words)[4], int32_t quarter) {
    const bool upper = (quarter & kStep) != 0;
#pragma unroll
    for (int32_t j = 0; j < 4; ++j) {
      if ((j & kStep) != 0) continue;
      const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? words[j] : words[j + kStep], kStep);
      (upper ? words[j] : words[j + kStep]) = got;
    }
  }

  const AttentionParams& p_;
  const RowMap& map_;
  const Shared<kDim>& shared_;
  int32_t group_;
  int32_t thread_;
  int32_t lane_;
  float scale_;
  int32_t before_ = 0;  // key tiles of the work before
  // Of this work:
  int32_t key_tiles_ = 0;
  int32_t all_see_ = 0;           // the last key that every row of the warpgroup sees
  int32_t position_[2] = {0, 0};  // the last key that a row sees
  float top_[2] = {0, 0};
  float sum_[2] = {0, 0};
};

template <int32_t kDim>
__global__ void __launch_bounds__(kThreads, 1) attention_tensor_kernel(const __grid_constant__ AttentionParams p) {
  extern __shared__ unsigned char memory[];
  const Shared<kDim> shared(memory);
  const RowMap map(p);
  if (threadIdx.x == 0) {
    for (int32_t stage = 0; stage < kStages; ++stage) {
      ptx::init_barrier(shared.keys_full(stage), kGroupThreads);
      ptx::init_barrier(shared.values_full(stage), kGroupThreads);
      ptx::init_barrier(shared.keys_empty(stage), 2 * kGroupThreads / kWarp);
      ptx::init_barrier(shared.values_empty(stage), 2 * kGroupThreads / kWarp);
    }
    ptx::init_barrier(shared.queries_empty(), 2 * kGroupThreads / kWarp);
    ptx::publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x < kGroupThreads) {
    ptx::fewer_registers<kFetchRegisters>();
    Fetch<kDim> fetch(p, map, shared);
    Works works(p, map);
    Work work;
    while (works.take(work)) fetch.run(work);
  } else {
    ptx::more_registers<kMultiplyRegisters>();
    Multiply<kDim> multiply(p, map, shared);
    Works works(p, map);
    Work work;
    while (works.take(work)) multiply.run(work);
    multiply.end();
  }
}

template <int32_t kDim>
void launch(const AttentionParams& params, cudaStream_t stream) {
  (void)cudaFuncSetAttribute(attention_tensor_kernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(Shared<kDim>::kBytes));
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>(params.tile_count * params.kv_heads, params.multiprocessors));
  attention_tensor_kernel<kDim><<<blocks, kThreads, Shared<kDim>::kBytes, stream>>>(params);
}

}  // namespace

void launch_attention_tensor(const AttentionParams& params, cudaStream_t stream) {
  if (params.head_dim == 64)
    launch<64>(params, stream);
  else
    launch<128>(params, stream);
}

}  // namespace zp::cuda
