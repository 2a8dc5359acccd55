// Attention on the tensor cores (wgmma), for head dimensions 64 and 128. Blocks, one a multiprocessor, take one piece
// of work after another: up to 128 rows of queries, whose keys they go through in tiles of 128. Three warpgroups:
//   - of the first, one warp fetches: the copy engine brings queries, keys and values, by block of 16 tokens wherever
//     they are, to a ring of kStages tiles;
//   - the two others have 64 rows each. While a warpgroup's product of weights and values runs, it already has the next
//     tile's scores made, and turns them into weights; and while one warpgroup does that, the other's products run. The
//     next tile may be the first of the next work, so that neither stops between two works.
//
// Key tiles begin at multiples of 128 tokens from position 0, and a row's running maximum and sum change only with keys
// that it sees. So its bits depend neither on the rows beside it nor on which part of its context was cached.
#include <algorithm>
#include <cmath>

#include "zp/ops/cuda/attention_kernels.h"
#include "zp/ops/cuda/attention_work.cuh"
#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/ptx_async.cuh"
#include "zp/ops/cuda/ptx_wgmma.cuh"

namespace zp::cuda {
namespace {

constexpr int32_t kGroupThreads = 128;
constexpr int32_t kThreads = 3 * kGroupThreads;
constexpr int32_t kGroupRows = 64;
constexpr int32_t kKeys = kTensorTileKeys;
constexpr int32_t kStages = 5;   // tiles of keys or values
constexpr int32_t kQueries = 2;  // works whose queries are there or on their way
// Together, what 168 registers a thread at the start add up to.
constexpr uint32_t kFetchRegisters = 56;
constexpr uint32_t kMultiplyRegisters = 224;

// A tile of 128 rows in shared memory: for each 64 columns, rows of 128 swizzled bytes.
template <int32_t kDim>
struct Layout {
  static constexpr int32_t kChunks = kDim / 8;  // of 16 bytes, a row
  static constexpr uint32_t kHalves = kDim / 64;
  static constexpr uint32_t kHalfBytes = 128 * 128;
  static constexpr uint32_t kTileBytes = kHalfBytes * kHalves;

  __device__ static uint32_t chunk(int32_t row, int32_t c) {
    return static_cast<uint32_t>(c / 8) * kHalfBytes + static_cast<uint32_t>(row) * 128 +
           static_cast<uint32_t>((c % 8) ^ (row % 8)) * 16;
  }
};

// Addresses in shared memory, from one aligned to the swizzle's 1024 bytes.
template <int32_t kDim>
struct Shared {
  static constexpr uint32_t kTile = Layout<kDim>::kTileBytes;
  static constexpr uint32_t kBarriers = 2 * kStages + kQueries;
  static constexpr size_t kBytes = 1024 + (kQueries + kStages) * kTile + kQueries * sizeof(Work) + kBarriers * 8;

  uint32_t begin;
  Work* works;  // [kQueries]

  __device__ explicit Shared(unsigned char* memory) {
    const uint32_t address = ptx::shared_address(memory);
    begin = (address + 1023) / 1024 * 1024;
    works = reinterpret_cast<Work*>(memory + (begin - address) + (kQueries + kStages) * kTile);
  }
  [[nodiscard]] __device__ uint32_t queries(uint32_t place) const { return begin + place * kTile; }
  [[nodiscard]] __device__ uint32_t tile(uint32_t stage) const { return begin + (kQueries + stage) * kTile; }
  [[nodiscard]] __device__ uint32_t full(uint32_t stage) const { return barrier(stage); }
  [[nodiscard]] __device__ uint32_t empty(uint32_t stage) const { return barrier(kStages + stage); }
  [[nodiscard]] __device__ uint32_t queries_empty(uint32_t place) const { return barrier(2 * kStages + place); }

 private:
  [[nodiscard]] __device__ uint32_t barrier(uint32_t index) const {
    return begin + (kQueries + kStages) * kTile + kQueries * static_cast<uint32_t>(sizeof(Work)) + index * 8;
  }
};

// Counts through a ring; parity is that of the current phase.
template <uint32_t kSize>
struct Turn {
  uint32_t stage = 0;
  uint32_t parity = 0;
  __device__ void next() {
    if (++stage == kSize) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The fetching warp. Lane b knows where block b of a tile's eight is; the first lane asks for copies.
template <int32_t kDim>
class Fetch {
 public:
  __device__ Fetch(const AttentionTensorParams& p, const RowMap& map, const Shared<kDim>& shared)
      : p_(p), map_(map), shared_(shared), lane_(static_cast<int32_t>(threadIdx.x) % kWarp) {}

  // Keys come first, since a tile's scores are made before the values of the tile before are needed: keys 0, keys 1,
  // values 0, keys 2, values 1, and so on, without a break between works.
  __device__ void run(Works& works) {
    Work work;
    Tile values{};
    bool first = true;
    do {
      AttentionSpan span;
      works.take(work, span);
      KvRows rows = find(span, 0);
      for (int32_t index = 0; index < work.key_tiles; ++index) {
        const Tile tile{rows, span.context + span.tokens - index * kKeys, work.kv_head};
        if (index + 1 < work.key_tiles) rows = find(span, index + 1);  // long before they are needed
        await_empty();
        if (index == 0) begin_work(work);
        keys(tile, index == 0 ? query_bytes() : 0);
        if (index == 0) queries(work);
        turn_.next();
        if (!first) fetch_values(values);
        first = false;
        values = tile;
      }
    } while (work.last == 0);
    fetch_values(values);
  }

 private:
  struct Tile {
    KvRows rows;   // of this lane's block
    int32_t left;  // tokens from the tile's first to the sequence's end
    int32_t kv_head;
  };
  static constexpr int32_t kTileBlocks = kKeys / kKvBlockTokens;
  static constexpr uint32_t kBlockBytes = kKvBlockTokens * 128 * Layout<kDim>::kHalves;

  // Where this lane's block of a tile is, or any if the sequence ends before.
  [[nodiscard]] __device__ KvRows find(const AttentionSpan& span, int32_t tile) const {
    const int32_t last = (span.context + span.tokens - 1) / kKvBlockTokens;
    return p_.rows[span.block + min(tile * kTileBlocks + lane_ % kTileBlocks, last)];
  }

  __device__ void await_empty() const { ptx::wait_barrier(shared_.empty(turn_.stage), turn_.parity ^ 1); }

  [[nodiscard]] __device__ uint32_t query_bytes() const {
    return static_cast<uint32_t>(map_.tile_rows()) * 128 * Layout<kDim>::kHalves;
  }
  // The work itself and its queries become visible with the first keys.
  __device__ void begin_work(const Work& work) const {
    ptx::wait_barrier(shared_.queries_empty(queries_.stage), queries_.parity ^ 1);
    if (lane_ == 0) shared_.works[queries_.stage] = work;
  }
  __device__ void queries(const Work& work) {
    if (lane_ == 0) {
#pragma unroll
      for (uint32_t half = 0; half < Layout<kDim>::kHalves; ++half) {
        const int32_t head = work.kv_head * map_.group();
        const bool one_head = map_.group() == 1;  // then the map has its dimensions in another order
        ptx::copy_box(shared_.queries(queries_.stage) + half * Layout<kDim>::kHalfBytes, &p_.q,
                      static_cast<int32_t>(half) * 64, one_head ? work.first_row : head,
                      one_head ? head : work.first_row, shared_.full(turn_.stage));
      }
    }
    queries_.next();
  }

  // Blocks that the sequence reaches. What lies beyond its end in the last of them, and in the others, is masked.
  __device__ void keys(const Tile& tile, uint32_t further_bytes) const {
    const int32_t blocks = min((tile.left + kKvBlockTokens - 1) / kKvBlockTokens, kTileBlocks);
    copy_blocks(tile.rows.k, tile.kv_head, blocks, further_bytes, p_.fresh_k, p_.kept_k);
  }

  // Values beyond the sequence's end are multiplied by 0, so they must be numbers: they are zeros.
  __device__ void fetch_values(const Tile& tile) {
    await_empty();
    const int32_t whole = min(tile.left / kKvBlockTokens, kTileBlocks);
    if (whole < kTileBlocks) {
      for (int32_t b = whole; b < kTileBlocks; ++b) {
        const int32_t row = __shfl_sync(0xffffffffu, tile.rows.v, b);
        store_block(tile, b, row);
      }
      ptx::fence_async_proxy();
      __syncwarp();
    }
    copy_blocks(tile.rows.v, tile.kv_head, whole, 0, p_.fresh_v, p_.kept_v);
    turn_.next();
  }
  // A block in which the sequence ends, and which therefore is a fresh one, or one beyond.
  __device__ void store_block(const Tile& tile, int32_t b, int32_t row) const {
    constexpr int32_t kChunks = Layout<kDim>::kChunks;
    const int32_t valid = tile.left - b * kKvBlockTokens;
    for (int32_t i = lane_; i < kKvBlockTokens * kChunks; i += kWarp) {
      const int32_t token = i / kChunks;
      const int32_t chunk = i % kChunks;
      uint4 data = make_uint4(0, 0, 0, 0);
      if (token < valid) {
        const int64_t at = (int64_t{~row + token} * p_.base.kv_heads + tile.kv_head) * kDim + chunk * 8;
        data = *reinterpret_cast<const uint4*>(p_.v + at);
      }
      ptx::store_16(shared_.tile(turn_.stage) + Layout<kDim>::chunk(b * kKvBlockTokens + token, chunk), data);
    }
  }

  // The tile's first `blocks` blocks, of which this lane's is at `row`; the barrier hears of all bytes first.
  __device__ void copy_blocks(int32_t row, int32_t kv_head, int32_t blocks, uint32_t further_bytes, const KvMaps& fresh,
                              const KvMaps& kept) const {
    const uint32_t full = shared_.full(turn_.stage);
    if (lane_ == 0) ptx::arrive_expecting(full, static_cast<uint32_t>(blocks) * kBlockBytes + further_bytes);
    const uint32_t to = shared_.tile(turn_.stage);
    const int32_t first = __shfl_sync(0xffffffffu, row, 0);
    const int32_t apart = (first < 0 ? first - row : row - first) - lane_ % kTileBlocks * kKvBlockTokens;
    if (__all_sync(0xffffffffu, apart == 0) && blocks == kTileBlocks) {
      if (lane_ == 0) copy(to, first < 0 ? fresh.tile : kept.tile, kv_head, first, full);
      return;
    }
#pragma unroll 1
    for (int32_t b = 0; b < blocks; ++b) {
      const int32_t at = __shfl_sync(0xffffffffu, row, b);
      if (lane_ != 0) continue;
      copy(to + static_cast<uint32_t>(b) * kKvBlockTokens * 128, at < 0 ? fresh.block : kept.block, kv_head, at, full);
    }
  }
  __device__ static void copy(uint32_t to, const CUtensorMap& map, int32_t kv_head, int32_t row, uint32_t full) {
#pragma unroll
    for (uint32_t half = 0; half < Layout<kDim>::kHalves; ++half)
      ptx::copy_box(to + half * Layout<kDim>::kHalfBytes, &map, static_cast<int32_t>(half) * 64, row < 0 ? ~row : row,
                    kv_head, full);
  }

  const AttentionTensorParams& p_;
  const RowMap& map_;
  const Shared<kDim>& shared_;
  int32_t lane_;
  Turn<kStages> turn_;
  Turn<kQueries> queries_;
};

// A consumer warpgroup. A thread has, of each eight columns, two of row lane / 4 and two of row lane / 4 + 8 of its
// warp's sixteen.
template <int32_t kDim>
class Multiply {
 public:
  __device__ Multiply(const AttentionParams& p, const RowMap& map, const Shared<kDim>& shared)
      : p_(p),
        shared_(shared),
        group_(static_cast<int32_t>(threadIdx.x) / kGroupThreads - 1),
        thread_(static_cast<int32_t>(threadIdx.x) % kGroupThreads),
        lane_(thread_ % kWarp),
        scale_(p.scale * kLog2E) {
#pragma unroll
    for (int32_t i = 0; i < 2; ++i) {
      token_[i] = map.token(row_of(i));
      const int32_t head = row_of(i) - token_[i] * map.group();
      offset_[i] = (token_[i] * p.q_heads + head) * kDim + lane_ % 4 * 8;
    }
    first_token_ = map.token(group_ * kGroupRows);
    // The warpgroups take turns at issuing products; the first one begins.
    if (group_ == 1) ptx::release_threads(kTurnBarrier, 2 * kGroupThreads);
  }

  __device__ void run() {
    await_full(turn_);
    begin();
    float scores[kKeys / 2];
    float out[kDim / 2] = {};
    uint32_t weights[kKeys / 16][4];
    float rescale[2];
    ptx::sync_threads(kTurnBarrier + group_, 2 * kGroupThreads);
    begin_scores(turn_.stage, scores);
    ptx::release_threads(kTurnBarrier + 1 - group_, 2 * kGroupThreads);
    ptx::wait_products<0>();
    ptx::pin_registers(scores);
    end_scores(turn_.stage, key_tiles_ == 1);
    turn_.next();
    soften(0, scores, rescale);
    pack(scores, weights);
    int32_t tile = 0;  // whose scores were made last
    while (true) {
      const bool ends = tile + 1 == key_tiles_;  // the work; the scores to be made are of the next one
      if (ends && last_) break;
      tile = ends ? 0 : tile + 1;
      const Turn<kStages> keys = turn_;
      turn_.next();
      const Turn<kStages> values = turn_;
      turn_.next();
      await_full(keys);
      ptx::sync_threads(kTurnBarrier + group_, 2 * kGroupThreads);
      begin_scores(keys.stage, scores);
      await_full(values);
      begin_values(values.stage, weights, out);
      ptx::release_threads(kTurnBarrier + 1 - group_, 2 * kGroupThreads);
      const Rows done{sum_[0], sum_[1], rows_, base_};
      if (ends) begin();
      ptx::wait_products<1>();
      ptx::pin_registers(scores);
      end_scores(keys.stage, tile + 1 == key_tiles_);
      soften(tile, scores, rescale);
      // The assembler moves a wait for products up to the last branch, before the work above: here is a branch.
      ptx::pin_registers(scores);
      await_full(values);
      ptx::wait_products<0>();
      ptx::pin_registers(out);
      ptx::pin_registers(weights);
      if (lane_ == 0) ptx::arrive(shared_.empty(values.stage));
      if (ends) {
        store(done, out);
#pragma unroll
        for (int32_t i = 0; i < kDim / 2; ++i) out[i] = 0;
      } else if (__any_sync(0xffffffffu, rescale[0] != 1 || rescale[1] != 1)) {
#pragma unroll
        for (int32_t i = 0; i < kDim / 2; ++i) out[i] *= rescale[i / 2 % 2];
      }
      pack(scores, weights);
    }
    await_full(turn_);
    begin_values(turn_.stage, weights, out);
    ptx::wait_products<0>();
    ptx::pin_registers(out);
    ptx::pin_registers(weights);
    store({sum_[0], sum_[1], rows_, base_}, out);
    // Takes what the second one's last turn let go.
    if (group_ == 0) ptx::sync_threads(kTurnBarrier, 2 * kGroupThreads);
  }

 private:
  static constexpr uint32_t kTurnBarrier = 1;  // and 2: whose turn it is

  // What remains to be known of a work when its products have ended.
  struct Rows {
    float sum[2];
    int32_t rows;
    int64_t base;
  };

  // Reads the work whose queries are to be used next; its first keys are there.
  __device__ void begin() {
    const Work work = read_work();
    rows_ = work.rows;
    key_tiles_ = work.key_tiles;
    last_ = work.last != 0;
    base_ = (int64_t{work.first_row} * p_.q_heads + work.kv_head * (p_.q_heads / p_.kv_heads)) * kDim;
    all_see_ = work.first_position + first_token_;
#pragma unroll
    for (int32_t i = 0; i < 2; ++i) {
      position_[i] = work.first_position + token_[i];
      top_[i] = -INFINITY;
      sum_[i] = 0;
    }
  }
  // The first lane reads it for its warp: no other has to be done when that lane lets the place go.
  [[nodiscard]] __device__ Work read_work() const {
    Work work{};
    if (lane_ == 0) work = shared_.works[queries_];
    for (int32_t* field :
         {&work.rows, &work.kv_head, &work.first_row, &work.first_position, &work.key_tiles, &work.last})
      *field = __shfl_sync(0xffffffffu, *field, 0);
    return work;
  }
  // Of the work: this thread's row of two.
  [[nodiscard]] __device__ int32_t row_of(int32_t i) const {
    return group_ * kGroupRows + thread_ / kWarp * 16 + lane_ / 4 + 8 * i;
  }

  __device__ void await_full(const Turn<kStages>& turn) const {
    ptx::wait_barrier(shared_.full(turn.stage), turn.parity);
  }
  // The tile's keys have been read; after the last, so have the queries.
  __device__ void end_scores(uint32_t stage, bool last) {
    if (lane_ == 0) {
      ptx::arrive(shared_.empty(stage));
      if (last) ptx::arrive(shared_.queries_empty(queries_));
    }
    if (last) queries_ = (queries_ + 1) % kQueries;
  }

  // scores = queries * keys of the tile.
  __device__ void begin_scores(uint32_t stage, float (&scores)[kKeys / 2]) const {
    const uint64_t a = ptx::describe_matrix(shared_.queries(queries_) + group_ * kGroupRows * 128, 16, 1024);
    const uint64_t b = ptx::describe_matrix(shared_.tile(stage), 16, 1024);
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
  __device__ void begin_values(uint32_t stage, uint32_t (&weights)[kKeys / 16][4], float (&out)[kDim / 2]) const {
    const uint64_t b = ptx::describe_matrix(shared_.tile(stage), Layout<kDim>::kHalfBytes, 1024);
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
  __device__ void store(const Rows& rows, const float (&out)[kDim / 2]) const {
    const int32_t quarter = lane_ % 4;
#pragma unroll
    for (int32_t i = 0; i < 2; ++i) {
      float sum = rows.sum[i];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const float inverse = 1.0f / sum;
      const bool valid = row_of(i) < rows.rows;
      Bits16* to = p_.out + rows.base + offset_[i];
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
  const Shared<kDim>& shared_;
  int32_t group_;
  int32_t thread_;
  int32_t lane_;
  float scale_;
  Turn<kStages> turn_;
  uint32_t queries_ = 0;  // where those of the scores to be made are
  // Of this thread's rows, in any work: the token, counted from the work's first, and where it is in out.
  int32_t token_[2];
  int32_t offset_[2];
  int32_t first_token_;  // of the warpgroup's first row
  // Of the work whose scores were made last:
  int32_t rows_ = 0;
  int32_t key_tiles_ = 0;
  bool last_ = false;
  int64_t base_ = 0;              // of its first row, in out
  int32_t all_see_ = 0;           // the last key that every row of the warpgroup sees
  int32_t position_[2] = {0, 0};  // the last key that a row sees
  float top_[2] = {0, 0};
  float sum_[2] = {0, 0};
};

template <int32_t kDim>
__global__ void __launch_bounds__(kThreads, 1)
    attention_tensor_kernel(const __grid_constant__ AttentionTensorParams p) {
  extern __shared__ unsigned char memory[];
  const Shared<kDim> shared(memory);
  const RowMap map(p.base);
  if (threadIdx.x == 0) {
    for (uint32_t stage = 0; stage < kStages; ++stage) {
      ptx::init_barrier(shared.full(stage), 1);
      ptx::init_barrier(shared.empty(stage), 2 * kGroupThreads / kWarp);
    }
    for (uint32_t place = 0; place < kQueries; ++place)
      ptx::init_barrier(shared.queries_empty(place), 2 * kGroupThreads / kWarp);
    ptx::publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x < kGroupThreads) {
    ptx::fewer_registers<kFetchRegisters>();
    if (threadIdx.x >= kWarp) return;
    Fetch<kDim> fetch(p, map, shared);
    Works works(p.base, map);
    fetch.run(works);
  } else {
    ptx::more_registers<kMultiplyRegisters>();
    Multiply<kDim> multiply(p.base, map, shared);
    multiply.run();
  }
}

template <int32_t kDim>
void launch(const AttentionTensorParams& params, cudaStream_t stream) {
  (void)cudaFuncSetAttribute(attention_tensor_kernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(Shared<kDim>::kBytes));
  const auto blocks = static_cast<unsigned>(
      std::min<int64_t>(params.base.tile_count * params.base.kv_heads, params.base.multiprocessors));
  attention_tensor_kernel<kDim><<<blocks, kThreads, Shared<kDim>::kBytes, stream>>>(params);
}

}  // namespace

void launch_attention_tensor(const AttentionTensorParams& params, cudaStream_t stream) {
  if (params.base.head_dim == 64)
    launch<64>(params, stream);
  else
    launch<128>(params, stream);
}

}  // namespace zp::cuda
