// Divides attention into items, each some query rows of one kv head of one sequence, and streams key/value tiles past
// them. Tiles begin at multiples of kTileTokens of the sequence, wherever its prefix ends, so that a row's bits do not
// depend on what was cached.
#include "zp/ops/cpu/attention.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace zp::cpu {
namespace {

// The most query rows of an item. More rows reuse a tile of keys and values more often.
constexpr int64_t kItemRows = 512;
// The widest strip of any kernels, and the widest head, padded.
constexpr int64_t kStripMax = 32;
static_assert(kHeadDimMax % 32 == 0 && kItemRows % kStripMax == 0);

/// Query rows of one kv head of one sequence. Their tokens lie in one tile, so that all see their last tokens in it.
struct Item {
  const AttentionSequence* sequence = nullptr;
  int64_t context = 0;  // tokens of the prefix
  int64_t kv_head = 0;
  int64_t row = 0;  // first row; row r is token r / group, head r % group of this kv head's group
  int64_t rows = 0;
};

// The scratch of one item. Bytes of packed strips and of the packed tile are the kernels' affair.
struct Scratch {
  Scratch(const ThreadScratch& scratch, const AttentionKernels& kernels, int64_t head_dim) {
    std::byte* next = scratch.rows;
    const auto take = [&next](int64_t bytes) {
      std::byte* taken = next;
      next += round_up<int64_t>(bytes, 64);
      return taken;
    };
    const auto take_floats = [&take](int64_t count) {
      return reinterpret_cast<float*>(take(count * static_cast<int64_t>(sizeof(float))));
    };
    queries = take(kItemRows / kernels.strip * kernels.strip_bytes(head_dim));
    tile = take(kernels.tile_bytes(head_dim));
    out = take_floats(kItemRows * round_up<int64_t>(head_dim, 32));
    scores = take_floats(kTileTokens * kernels.strip);
    top = take_floats(kItemRows);
    sum = take_floats(kItemRows);
    visible = take_floats(kernels.strip);
    result = take_floats(head_dim);
    ZP_CHECK(next <= scratch.rows + ThreadScratch::kRowsBytes, "attention needs {} bytes of scratch",
             next - scratch.rows);
  }

  std::byte* queries;  // [strips]
  std::byte* tile;
  float* out;      // [strips][padded D, strip]
  float* scores;   // [64, strip]
  float* top;      // [rows]
  float* sum;      // [rows]
  float* visible;  // [strip]
  float* result;   // [D]
};

class ItemRunner final {
 public:
  ItemRunner(const Workers& workers, const AttentionArgs& args, const Item& item, int32_t thread)
      : workers_(workers),
        kernels_(workers.attention()),
        args_(args),
        item_(item),
        head_dim_(args.q.dim(2)),
        head_dim_padded_(round_up<int64_t>(head_dim_, 32)),
        q_heads_(args.q.dim(1)),
        kv_heads_(args.k.dim(1)),
        group_(q_heads_ / kv_heads_),
        element_size_(size_of(args.q.dtype())),
        scratch_(workers.scratch(thread), kernels_, head_dim_) {}

  void run() {
    load_queries();
    kernels_.begin();
    const int64_t end = visible_tokens(item_.rows - 1);
    for (int64_t origin = 0; origin < end; origin += kTileTokens) {
      load_tile(origin, std::min(kTileTokens, end - origin));
      for (int64_t row = 0; row < item_.rows; row += kernels_.strip) run_strip(row, origin);
    }
    kernels_.end();
    store_results();
  }

 private:
  // Tokens that a row of this item sees.
  [[nodiscard]] int64_t visible_tokens(int64_t row) const { return item_.context + (item_.row + row) / group_ + 1; }
  // Bytes before the row in q and out.
  [[nodiscard]] size_t query_offset(int64_t row) const {
    const int64_t r = item_.row + row;
    const int64_t head = (item_.sequence->row + r / group_) * q_heads_ + item_.kv_head * group_ + r % group_;
    return static_cast<size_t>(head * head_dim_) * element_size_;
  }
  [[nodiscard]] float* strip_out(int64_t row) const { return scratch_.out + row * head_dim_padded_; }
  [[nodiscard]] std::byte* strip_queries(int64_t row) const {
    return scratch_.queries + row / kernels_.strip * kernels_.strip_bytes(head_dim_);
  }

  void load_queries() {
    const int64_t lanes = round_up(item_.rows, kernels_.strip);
    std::fill_n(scratch_.out, lanes * head_dim_padded_, 0.0f);
    std::fill_n(scratch_.top, lanes, -std::numeric_limits<float>::infinity());
    std::fill_n(scratch_.sum, lanes, 0.0f);
    for (int64_t row = 0; row < item_.rows; row += kernels_.strip) {
      std::array<const std::byte*, kStripMax> rows{};
      for (int64_t lane = 0; lane < std::min(kernels_.strip, item_.rows - row); ++lane)
        rows[static_cast<size_t>(lane)] = args_.q.data() + query_offset(row + lane);
      kernels_.pack_queries(
          {.rows = rows.data(), .head_dim = head_dim_, .scale = args_.scale, .packed = strip_queries(row)});
    }
  }

  // Packs tokens [origin, origin + tokens) of this kv head, from the extents they lie in and the fresh rows.
  void load_tile(int64_t origin, int64_t tokens) {
    std::array<const std::byte*, kTileTokens> k{};
    std::array<const std::byte*, kTileTokens> v{};
    const size_t token_bytes = static_cast<size_t>(kv_heads_ * head_dim_) * element_size_;
    const size_t head_offset = static_cast<size_t>(item_.kv_head * head_dim_) * element_size_;
    const int64_t end = origin + tokens;
    int64_t token = origin;
    const auto add_run = [&](const std::byte* run_k, const std::byte* run_v, int64_t first_row, int64_t run_end) {
      for (int64_t row = first_row; token < run_end; ++token, ++row) {
        const size_t offset = static_cast<size_t>(row) * token_bytes + head_offset;
        k[static_cast<size_t>(token - origin)] = run_k + offset;
        v[static_cast<size_t>(token - origin)] = run_v + offset;
      }
    };
    int64_t extent_begin = 0;
    for (const KvExtent& extent : item_.sequence->prefix) {
      if (token >= end) break;
      const int64_t extent_end = extent_begin + extent.tokens;
      if (token < extent_end) add_run(extent.k, extent.v, token - extent_begin, std::min(end, extent_end));
      extent_begin = extent_end;
    }
    add_run(args_.k.data(), args_.v.data(), item_.sequence->row + token - item_.context, end);
    kernels_.pack_tile(
        {.k = k.data(), .v = v.data(), .tokens = tokens, .head_dim = head_dim_, .packed = scratch_.tile});
  }

  void run_strip(int64_t row, int64_t origin) {
    const int64_t last = std::min(row + kernels_.strip, item_.rows) - 1;
    for (int64_t lane = 0; lane < kernels_.strip; ++lane)
      scratch_.visible[lane] = row + lane <= last ? static_cast<float>(visible_tokens(row + lane) - origin) : 0.0f;
    // Lanes without a row may be computed as if they saw all: they hold zeros and are never read.
    kernels_.run_tile({.queries = strip_queries(row),
                       .keys_values = scratch_.tile,
                       .scale = args_.scale,
                       .out = strip_out(row),
                       .top = scratch_.top + row,
                       .sum = scratch_.sum + row,
                       .visible = scratch_.visible,
                       .scores = scratch_.scores,
                       .head_dim = head_dim_,
                       .tokens = std::min(kTileTokens, visible_tokens(last) - origin),
                       .full_tokens = std::min(kTileTokens, visible_tokens(row) - origin)});
  }

  void store_results() {
    for (int64_t row = 0; row < item_.rows; ++row) {
      const int64_t lane = row % kernels_.strip;
      const float* out = strip_out(row - lane) + lane;
      const float sum = scratch_.sum[row];
      for (int64_t d = 0; d < head_dim_; ++d) scratch_.result[d] = out[d * kernels_.strip] / sum;
      workers_.kernels().convert({scratch_.result, DType::kF32},
                                 {args_.out.data() + query_offset(row), args_.out.dtype()}, head_dim_);
    }
  }

  const Workers& workers_;
  const AttentionKernels& kernels_;
  const AttentionArgs& args_;
  const Item& item_;
  int64_t head_dim_;
  int64_t head_dim_padded_;
  int64_t q_heads_;
  int64_t kv_heads_;
  int64_t group_;
  size_t element_size_;
  Scratch scratch_;
};

/// Divides a step's attention into items.
class Planner final {
 public:
  Planner(const AttentionArgs& args, int32_t threads)
      : args_(args), kv_heads_(args.k.dim(1)), group_(args.q.dim(1) / kv_heads_) {
    // Smaller items where large ones would leave threads idle.
    const int64_t share = ceil_div(args.q.dim(0) * args.q.dim(1), int64_t{4} * threads);
    item_rows_ = std::clamp(round_up(share, kStripMax), kStripMax, kItemRows);
    for (const AttentionSequence& sequence : args.sequences) add(sequence);
    // Threads take items in order: the largest first, so that none is left with a large one at the end.
    std::stable_sort(items_.begin(), items_.end(),
                     [this](const Item& a, const Item& b) { return item_work(a) > item_work(b); });
  }

  [[nodiscard]] const std::vector<Item>& items() const noexcept { return items_; }
  /// Multiplications of all items.
  [[nodiscard]] int64_t work() const {
    int64_t sum = 0;
    for (const Item& item : items_) sum += item_work(item);
    return sum;
  }

 private:
  void add(const AttentionSequence& sequence) {
    Item item{.sequence = &sequence};
    for (const KvExtent& extent : sequence.prefix) item.context += extent.tokens;
    for (int64_t token = 0; token < sequence.tokens;) {
      const int64_t tile_end = round_up(item.context + token + 1, kTileTokens) - item.context;
      const int64_t token_end = std::min<int64_t>(sequence.tokens, tile_end);
      for (item.row = token * group_; item.row < token_end * group_; item.row += item.rows) {
        item.rows = std::min(item_rows_, token_end * group_ - item.row);
        for (item.kv_head = 0; item.kv_head < kv_heads_; ++item.kv_head) items_.push_back(item);
      }
      token = token_end;
    }
  }
  [[nodiscard]] int64_t item_work(const Item& item) const {
    return 2 * item.rows * (item.context + (item.row + item.rows) / group_) * args_.q.dim(2);
  }

  const AttentionArgs& args_;
  int64_t kv_heads_;
  int64_t group_;
  int64_t item_rows_ = 0;
  std::vector<Item> items_;
};

}  // namespace

void attention(Workers& workers, const AttentionArgs& args) {
  check_head_dim(args.q.dim(2));
  const Planner plan(args, workers.threads());
  workers.run(std::ssize(plan.items()), plan.work(), [&](int64_t index, int32_t thread) {
    ItemRunner(workers, args, plan.items()[static_cast<size_t>(index)], thread).run();
  });
}

}  // namespace zp::cpu
