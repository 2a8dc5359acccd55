// Lists blocks and tiles, and launches.
#include "zp/ops/cuda/attention.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "zp/base/math.h"
#include "zp/ops/cuda/tensor_map.h"

namespace zp::cuda {
namespace {

// Where an extent's rows are, for the copy engine: rows of one array, of the step's own keys or of the kept ones.
class RowsOf {
 public:
  RowsOf(const std::byte* fresh, int64_t tokens, int64_t row_bytes)
      : fresh_(fresh), fresh_end_(fresh + tokens * row_bytes), row_bytes_(row_bytes) {}

  // Takes note of an extent; all of them before the first row().
  void see(const std::byte* begin, int64_t tokens) {
    if (is_fresh(begin)) {
      fits_ = fits_ && (begin - fresh_) % row_bytes_ == 0;
      return;
    }
    if (first_ == nullptr) {
      first_ = last_ = begin;
      last_tokens_ = tokens;
    }
    fits_ = fits_ && (begin - first_) % row_bytes_ == 0;
    first_ = std::min(first_, begin);
    if (begin >= last_) {
      last_ = begin;
      last_tokens_ = tokens;
    }
  }
  // Whether the array exists: all extents are a whole number of rows from one another, and not too far.
  [[nodiscard]] bool fits() const { return fits_ && kept_rows() < INT32_MAX; }
  // Rows are counted from the first kept extent, or from fresh ones, as ~row.
  [[nodiscard]] int32_t row(const std::byte* at) const {
    return is_fresh(at) ? ~static_cast<int32_t>((at - fresh_) / row_bytes_)
                        : static_cast<int32_t>((at - first_) / row_bytes_);
  }
  [[nodiscard]] const std::byte* kept() const { return first_ == nullptr ? fresh_ : first_; }
  [[nodiscard]] int64_t kept_rows() const {
    return first_ == nullptr ? kKvBlockTokens : (last_ - first_) / row_bytes_ + last_tokens_;
  }

 private:
  [[nodiscard]] bool is_fresh(const std::byte* at) const { return at >= fresh_ && at < fresh_end_; }

  const std::byte* fresh_;
  const std::byte* fresh_end_;
  int64_t row_bytes_;
  const std::byte* first_ = nullptr;
  const std::byte* last_ = nullptr;
  int64_t last_tokens_ = 0;
  bool fits_ = true;
};

// The arrays of all extents, if attention on the tensor cores can run on them.
struct TensorRows {
  RowsOf k;
  RowsOf v;

  static std::optional<TensorRows> find(const AttentionArgs& args) {
    const int64_t head_dim = args.q.dim(2);
    if ((head_dim != 64 && head_dim != 128) || args.q.dim(1) / args.k.dim(1) > kTensorTileRows) return {};
    const int64_t row_bytes = args.k.dim(1) * head_dim * static_cast<int64_t>(sizeof(Bf16));
    TensorRows rows{RowsOf(args.k.data(), args.k.dim(0), row_bytes), RowsOf(args.v.data(), args.v.dim(0), row_bytes)};
    for (const AttentionSequence& sequence : args.sequences) {
      for (const KvExtent& extent : sequence.prefix) {
        rows.k.see(extent.k, extent.tokens);
        rows.v.see(extent.v, extent.tokens);
      }
    }
    if (!rows.k.fits() || !rows.v.fits()) return {};
    return rows;
  }
};

static_assert(attention_metadata_bytes(1, 0) == sizeof(KvBlock) + sizeof(AttentionSpan) &&
              attention_metadata_bytes(0, 1) == sizeof(AttentionTile) + sizeof(AttentionSpan));
static_assert(sizeof(KvRows) <= sizeof(KvBlock));

// Sequences of the next launch: as many as their metadata has room for.
class Launch {
 public:
  Launch(const AttentionArgs& args, const std::optional<TensorRows>& rows, const CudaDevice& device)
      : args_(args),
        rows_(rows),
        device_(device),
        group_(static_cast<int32_t>(args.q.dim(1) / args.k.dim(1))),
        tile_rows_(rows ? kTensorTileRows / group_ * group_ : kSimpleTileRows),
        row_bytes_(args.k.dim(1) * args.k.dim(2) * static_cast<int64_t>(sizeof(Bf16))) {}

  [[nodiscard]] bool has_room(const AttentionSequence& sequence) const {
    return spans_.empty() || size_bytes_ + metadata_bytes(sequence) <= kAttentionMetadataMax;
  }

  void add(const AttentionSequence& sequence) {
    size_bytes_ += metadata_bytes(sequence);
    AttentionSpan span{.row = sequence.row, .block = std::ssize(blocks_), .tokens = sequence.tokens, .context = 0};
    for (const KvExtent& extent : sequence.prefix) {
      add_blocks(extent.k, extent.v, extent.tokens);
      span.context += extent.tokens;
    }
    const int64_t offset = sequence.row * row_bytes_;
    add_blocks(args_.k.data() + offset, args_.v.data() + offset, sequence.tokens);
    const int64_t rows = int64_t{sequence.tokens} * group_;
    for (int64_t row = 0; row < rows; row += tile_rows_)
      tiles_.push_back({.span = static_cast<int32_t>(spans_.size()), .first_row = static_cast<int32_t>(row)});
    spans_.push_back(span);
  }

  // Launches, and begins anew.
  void issue(CudaStream& stream, StagingRing& ring) {
    if (tiles_.empty()) return;
    // The longest first, so that the last ones to end are short.
    const auto keys = [&](const AttentionTile& tile) {
      return spans_[static_cast<size_t>(tile.span)].context + (tile.first_row + tile_rows_ - 1) / group_;
    };
    std::ranges::stable_sort(tiles_, [&](const auto& a, const auto& b) { return keys(a) > keys(b); });
    Metadata metadata;
    const size_t spans = metadata.add(std::span<const AttentionSpan>(spans_));
    const size_t tiles = metadata.add(std::span<const AttentionTile>(tiles_));
    const size_t blocks =
        rows_ ? metadata.add(std::span<const KvRows>(block_rows())) : metadata.add(std::span<const KvBlock>(blocks_));
    const std::byte* sent = ring.send(stream, metadata);
    const AttentionParams params{.q = reinterpret_cast<const Bits16*>(args_.q.data()),
                                 .out = reinterpret_cast<Bits16*>(args_.out.data()),
                                 .blocks = reinterpret_cast<const KvBlock*>(sent + blocks),
                                 .spans = reinterpret_cast<const AttentionSpan*>(sent + spans),
                                 .tiles = reinterpret_cast<const AttentionTile*>(sent + tiles),
                                 .tile_count = std::ssize(tiles_),
                                 .q_heads = static_cast<int32_t>(args_.q.dim(1)),
                                 .kv_heads = static_cast<int32_t>(args_.k.dim(1)),
                                 .head_dim = static_cast<int32_t>(args_.q.dim(2)),
                                 .multiprocessors = device_.multiprocessors(),
                                 .scale = args_.scale};
    if (rows_)
      launch_attention_tensor(with_maps(params), stream.get());
    else
      launch_attention_simple(params, stream.get());
    size_bytes_ = 0;
    blocks_.clear();
    spans_.clear();
    tiles_.clear();
  }

 private:
  [[nodiscard]] size_t metadata_bytes(const AttentionSequence& sequence) const {
    int64_t blocks = ceil_div(sequence.tokens, kKvBlockTokens);
    for (const KvExtent& extent : sequence.prefix) blocks += extent.tokens / kKvBlockTokens;
    const int64_t tiles = ceil_div<int64_t>(int64_t{sequence.tokens} * group_, tile_rows_);
    return attention_metadata_bytes(blocks, tiles);
  }

  void add_blocks(const std::byte* k, const std::byte* v, int32_t tokens) {
    const int64_t block_bytes = kKvBlockTokens * row_bytes_;
    for (int32_t t = 0; t < tokens; t += kKvBlockTokens, k += block_bytes, v += block_bytes) blocks_.push_back({k, v});
  }

  [[nodiscard]] std::vector<KvRows> block_rows() const {
    std::vector<KvRows> rows;
    rows.reserve(blocks_.size());
    for (const KvBlock& block : blocks_) rows.push_back({rows_->k.row(block.k), rows_->v.row(block.v)});
    return rows;
  }

  [[nodiscard]] AttentionTensorParams with_maps(const AttentionParams& params) const {
    const auto map = [&](const std::byte* base, int64_t rows, int32_t box_rows) {
      return make_rows_map({.base = base,
                            .rows = rows,
                            .heads = params.kv_heads,
                            .dim = params.head_dim,
                            .box_heads = 1,
                            .box_rows = box_rows},
                           device_.index());
    };
    const auto maps = [&](const std::byte* base, int64_t rows) {
      return KvMaps{.block = map(base, rows, kKvBlockTokens), .tile = map(base, rows, kTensorTileKeys)};
    };
    return {.base = params,
            .rows = reinterpret_cast<const KvRows*>(params.blocks),
            .v = reinterpret_cast<const Bits16*>(args_.v.data()),
            .fresh_k = maps(args_.k.data(), args_.k.dim(0)),
            .fresh_v = maps(args_.v.data(), args_.v.dim(0)),
            .kept_k = maps(rows_->k.kept(), rows_->k.kept_rows()),
            .kept_v = maps(rows_->v.kept(), rows_->v.kept_rows()),
            .q = make_rows_map({.base = params.q,
                                .rows = args_.q.dim(0),
                                .heads = params.q_heads,
                                .dim = params.head_dim,
                                .box_heads = group_,
                                .box_rows = kTensorTileRows / group_},
                               device_.index())};
  }

  const AttentionArgs& args_;
  const std::optional<TensorRows>& rows_;  // unset: attention_simple.cu
  const CudaDevice& device_;
  int32_t group_;  // query heads a kv head
  int32_t tile_rows_;
  int64_t row_bytes_;  // of one token's keys
  size_t size_bytes_ = 0;
  std::vector<KvBlock> blocks_;
  std::vector<AttentionSpan> spans_;
  std::vector<AttentionTile> tiles_;
};

}  // namespace

void run_attention(CudaStream& stream, StagingRing& ring, const AttentionArgs& args, AttentionChoice choice,
                   const CudaDevice& device) {
  const std::optional<TensorRows> rows = choice == AttentionChoice::kTensor ? TensorRows::find(args) : std::nullopt;
  Launch next(args, rows, device);
  for (const AttentionSequence& sequence : args.sequences) {
    if (sequence.tokens == 0) continue;
    if (!next.has_room(sequence)) next.issue(stream, ring);
    next.add(sequence);
  }
  next.issue(stream, ring);
}

}  // namespace zp::cuda
