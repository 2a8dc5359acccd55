// Divides attention into items, each some query rows of one kv head of one sequence, and streams key/value tiles past
// them. Tiles begin at multiples of kTileTokens of the sequence, wherever its prefix ends, so that a row's bits do not
// depend on what was cached.
#include "zp/ops/cpu/attention.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace zp::cpu {
namespace {

// Query rows of an item: strips of `Kernels::strip` rows. More rows reuse a tile more often; fewer make more items.
constexpr int64_t kItemRows = 128;

struct Item {
  const AttentionSequence* sequence = nullptr;
  int64_t context = 0;  // tokens of the prefix
  int64_t kv_head = 0;
  int64_t row = 0;  // first row; row r is token r / group, head r % group of this kv head's group
  int64_t rows = 0;
};

// The scratch of one item: up to kItemRows rows in strips, and one tile of keys and values, all f32.
struct Scratch {
  Scratch(const ThreadScratch& scratch, int64_t head_dim) {
    auto* next = reinterpret_cast<float*>(scratch.rows);
    const auto take = [&next](int64_t count) {
      float* taken = next;
      next += round_up<int64_t>(count, 16);
      return taken;
    };
    q = take(kItemRows * head_dim);
    out = take(kItemRows * head_dim);
    k = take(kTileTokens * head_dim);
    v = take(kTileTokens * head_dim);
    scores = take(kTileTokens * kItemRows);
    top = take(kItemRows);
    sum = take(kItemRows);
    visible = take(kItemRows);
  }
  static constexpr size_t kBytesMax =
      sizeof(float) * static_cast<size_t>(kHeadDimMax * 2 * (kItemRows + kTileTokens) + kItemRows * (kTileTokens + 8));

  float* q;        // [strips][D, strip]
  float* out;      // [strips][D, strip]
  float* k;        // [64, D]
  float* v;        // [64, D]
  float* scores;   // [64, strip]
  float* top;      // [rows]
  float* sum;      // [rows]
  float* visible;  // [rows]
};
static_assert(Scratch::kBytesMax <= ThreadScratch::kRowsBytes);

class ItemRunner final {
 public:
  ItemRunner(const Workers& workers, const AttentionArgs& args, const Item& item, int32_t thread)
      : kernels_(workers.kernels()),
        args_(args),
        item_(item),
        head_dim_(args.q.dim(2)),
        q_heads_(args.q.dim(1)),
        kv_heads_(args.k.dim(1)),
        group_(q_heads_ / kv_heads_),
        element_size_(size_of(args.q.dtype())),
        scratch_(workers.scratch(thread), head_dim_) {}

  void run() {
    load_queries();
    const int64_t end = visible_tokens(item_.rows - 1);
    for (int64_t origin = 0; origin < end; origin += kTileTokens) {
      const int64_t tokens = std::min(kTileTokens, end - origin);
      load_tile(origin, tokens);
      for (int64_t row = 0; row < item_.rows; row += kernels_.strip) run_strip(row, origin);
    }
    store_results();
  }

 private:
  // Tokens that a row of this item sees.
  [[nodiscard]] int64_t visible_tokens(int64_t row) const { return item_.context + (item_.row + row) / group_ + 1; }
  // Index of the row's first element in q and out.
  [[nodiscard]] int64_t query_index(int64_t row) const {
    const int64_t r = item_.row + row;
    return ((item_.sequence->row + r / group_) * q_heads_ + item_.kv_head * group_ + r % group_) * head_dim_;
  }
  [[nodiscard]] int64_t strip_offset(int64_t row) const {
    return row / kernels_.strip * kernels_.strip * head_dim_ + row % kernels_.strip;
  }

  // Queries are scaled and laid into lanes; lanes without a row hold zeros and see nothing.
  void load_queries() {
    const int64_t lanes = round_up(item_.rows, kernels_.strip);
    std::fill_n(scratch_.out, lanes * head_dim_, 0.0f);
    std::fill_n(scratch_.top, lanes, -std::numeric_limits<float>::infinity());
    std::fill_n(scratch_.sum, lanes, 0.0f);
    for (int64_t row = 0; row < lanes; ++row) {
      float* q = scratch_.q + strip_offset(row);
      if (row >= item_.rows) {
        for (int64_t d = 0; d < head_dim_; ++d) q[d * kernels_.strip] = 0.0f;
        continue;
      }
      float* widened = scratch_.k;  // no tile is loaded yet
      const std::byte* from = args_.q.data() + static_cast<size_t>(query_index(row)) * element_size_;
      kernels_.convert({from, args_.q.dtype()}, {widened, DType::kF32}, head_dim_);
      for (int64_t d = 0; d < head_dim_; ++d) q[d * kernels_.strip] = widened[d] * args_.scale;
    }
  }

  // Widens tokens [origin, origin + tokens) of this kv head; the rest of the tile's keys become zero, because scores
  // are computed for whole blocks of tokens.
  void load_tile(int64_t origin, int64_t tokens) {
    int64_t extent_begin = 0;
    int64_t token = origin;
    const auto load_run = [&](const std::byte* k, const std::byte* v, int64_t first_row, int64_t run_end) {
      for (int64_t row = first_row; token < run_end; ++token, ++row) {
        const size_t offset = static_cast<size_t>((row * kv_heads_ + item_.kv_head) * head_dim_) * element_size_;
        const int64_t to = (token - origin) * head_dim_;
        kernels_.convert({k + offset, args_.k.dtype()}, {scratch_.k + to, DType::kF32}, head_dim_);
        kernels_.convert({v + offset, args_.v.dtype()}, {scratch_.v + to, DType::kF32}, head_dim_);
      }
    };
    const int64_t end = origin + tokens;
    for (const KvExtent& extent : item_.sequence->prefix) {
      if (token >= end) break;
      const int64_t extent_end = extent_begin + extent.tokens;
      if (token < extent_end) load_run(extent.k, extent.v, token - extent_begin, std::min(end, extent_end));
      extent_begin = extent_end;
    }
    load_run(args_.k.data(), args_.v.data(), item_.sequence->row + token - item_.context, end);
    std::fill_n(scratch_.k + tokens * head_dim_, (kTileTokens - tokens) * head_dim_, 0.0f);
  }

  void run_strip(int64_t row, int64_t origin) {
    const int64_t last = std::min(row + kernels_.strip, item_.rows) - 1;
    const int64_t tokens = std::min(kTileTokens, visible_tokens(last) - origin);
    if (tokens <= 0) return;
    for (int64_t lane = 0; lane < kernels_.strip; ++lane)
      scratch_.visible[lane] = row + lane <= last ? static_cast<float>(visible_tokens(row + lane) - origin) : 0.0f;
    // Lanes without a row may be computed as if they saw all: they hold zeros and are never read.
    const int64_t fewest = std::clamp(visible_tokens(row) - origin, int64_t{0}, tokens);
    kernels_.attention_tile({.q = scratch_.q + row * head_dim_,
                             .out = scratch_.out + row * head_dim_,
                             .top = scratch_.top + row,
                             .sum = scratch_.sum + row,
                             .visible = scratch_.visible,
                             .k = scratch_.k,
                             .v = scratch_.v,
                             .scores = scratch_.scores,
                             .head_dim = head_dim_,
                             .tokens = tokens,
                             .full_tokens = fewest});
  }

  void store_results() {
    float* result = scratch_.k;  // the last tile is done with
    for (int64_t row = 0; row < item_.rows; ++row) {
      const float* out = scratch_.out + strip_offset(row);
      const float sum = scratch_.sum[row];
      for (int64_t d = 0; d < head_dim_; ++d) result[d] = out[d * kernels_.strip] / sum;
      std::byte* to = args_.out.data() + static_cast<size_t>(query_index(row)) * element_size_;
      kernels_.convert({result, DType::kF32}, {to, args_.out.dtype()}, head_dim_);
    }
  }

  const Kernels& kernels_;
  const AttentionArgs& args_;
  const Item& item_;
  int64_t head_dim_;
  int64_t q_heads_;
  int64_t kv_heads_;
  int64_t group_;
  size_t element_size_;
  Scratch scratch_;
};

struct Plan {
  std::vector<Item> items;
  int64_t work = 0;
};

Plan plan_items(const AttentionArgs& args) {
  const int64_t group = args.q.dim(1) / args.k.dim(1);
  Plan plan;
  for (const AttentionSequence& sequence : args.sequences) {
    int64_t context = 0;
    for (const KvExtent& extent : sequence.prefix) context += extent.tokens;
    const int64_t rows = sequence.tokens * group;
    plan.work += 2 * rows * (context + sequence.tokens) * args.q.dim(2) * args.k.dim(1);
    for (int64_t row = 0; row < rows; row += kItemRows)
      for (int64_t kv_head = 0; kv_head < args.k.dim(1); ++kv_head)
        plan.items.push_back({.sequence = &sequence,
                              .context = context,
                              .kv_head = kv_head,
                              .row = row,
                              .rows = std::min(kItemRows, rows - row)});
  }
  // Threads take items in order: the largest first, so that none is left with a large one at the end.
  std::stable_sort(plan.items.begin(), plan.items.end(), [&](const Item& a, const Item& b) {
    return (a.context + (a.row + a.rows) / group) * a.rows > (b.context + (b.row + b.rows) / group) * b.rows;
  });
  return plan;
}

}  // namespace

void attention(Workers& workers, const AttentionArgs& args) {
  check_head_dim(args.q.dim(2));
  const Plan plan = plan_items(args);
  workers.run(std::ssize(plan.items), plan.work, [&](int64_t index, int32_t thread) {
    ItemRunner(workers, args, plan.items[static_cast<size_t>(index)], thread).run();
  });
}

}  // namespace zp::cpu
