// Lists blocks and tiles, and launches.
#include "zp/ops/cuda/attention.h"

#include <algorithm>

#include "zp/base/math.h"

namespace zp::cuda {
namespace {

// Sequences of the next launch: as many as their metadata has room for.
class Launch {
 public:
  Launch(const AttentionArgs& args, int32_t tile_rows, int32_t multiprocessors)
      : args_(args),
        tile_rows_(tile_rows),
        multiprocessors_(multiprocessors),
        group_(static_cast<int32_t>(args.q.dim(1) / args.k.dim(1))),
        row_bytes_(args.k.dim(1) * args.k.dim(2) * static_cast<int64_t>(sizeof(Bf16))) {}

  [[nodiscard]] bool has_room(const AttentionSequence& sequence) const {
    return spans_.empty() || size_bytes_ + metadata_bytes(sequence) <= StagingRing::kSegmentBytes - kMargin;
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
  void issue(CudaStream& stream, StagingRing& ring, void (*launch)(const AttentionParams&, cudaStream_t)) {
    if (tiles_.empty()) return;
    // The longest first, so that the last ones to end are short.
    const auto keys = [&](const AttentionTile& tile) {
      return spans_[static_cast<size_t>(tile.span)].context + (tile.first_row + tile_rows_ - 1) / group_;
    };
    std::ranges::stable_sort(tiles_, [&](const auto& a, const auto& b) { return keys(a) > keys(b); });
    Metadata metadata;
    const size_t blocks = metadata.add(std::span<const KvBlock>(blocks_));
    const size_t spans = metadata.add(std::span<const AttentionSpan>(spans_));
    const size_t tiles = metadata.add(std::span<const AttentionTile>(tiles_));
    const std::byte* sent = ring.send(stream, metadata);
    launch({.q = reinterpret_cast<const Bits16*>(args_.q.data()),
            .out = reinterpret_cast<Bits16*>(args_.out.data()),
            .blocks = reinterpret_cast<const KvBlock*>(sent + blocks),
            .spans = reinterpret_cast<const AttentionSpan*>(sent + spans),
            .tiles = reinterpret_cast<const AttentionTile*>(sent + tiles),
            .tile_count = std::ssize(tiles_),
            .q_heads = static_cast<int32_t>(args_.q.dim(1)),
            .kv_heads = static_cast<int32_t>(args_.k.dim(1)),
            .head_dim = static_cast<int32_t>(args_.q.dim(2)),
            .multiprocessors = multiprocessors_,
            .scale = args_.scale},
           stream.get());
    size_bytes_ = 0;
    blocks_.clear();
    spans_.clear();
    tiles_.clear();
  }

 private:
  static constexpr size_t kMargin = 4096;

  [[nodiscard]] size_t metadata_bytes(const AttentionSequence& sequence) const {
    int64_t blocks = ceil_div(sequence.tokens, kKvBlockTokens);
    for (const KvExtent& extent : sequence.prefix) blocks += extent.tokens / kKvBlockTokens;
    const int64_t tiles = ceil_div<int64_t>(int64_t{sequence.tokens} * group_, tile_rows_);
    return static_cast<size_t>(blocks) * sizeof(KvBlock) + static_cast<size_t>(tiles) * sizeof(AttentionTile) +
           sizeof(AttentionSpan);
  }

  void add_blocks(const std::byte* k, const std::byte* v, int32_t tokens) {
    const int64_t block_bytes = kKvBlockTokens * row_bytes_;
    for (int32_t t = 0; t < tokens; t += kKvBlockTokens, k += block_bytes, v += block_bytes) blocks_.push_back({k, v});
  }

  const AttentionArgs& args_;
  int32_t tile_rows_;
  int32_t multiprocessors_;
  int32_t group_;      // query heads a kv head
  int64_t row_bytes_;  // of one token's keys
  size_t size_bytes_ = 0;
  std::vector<KvBlock> blocks_;
  std::vector<AttentionSpan> spans_;
  std::vector<AttentionTile> tiles_;
};

}  // namespace

void run_attention(CudaStream& stream, StagingRing& ring, const AttentionArgs& args, AttentionChoice choice,
                   int32_t multiprocessors) {
  const int64_t head_dim = args.q.dim(2);
  const bool tensor = choice == AttentionChoice::kTensor && (head_dim == 64 || head_dim == 128);
  const auto launch = tensor ? &launch_attention_tensor : &launch_attention_simple;
  const int32_t tile_rows = tensor ? kTensorTileRows : kSimpleTileRows;
  Launch next(args, tile_rows, multiprocessors);
  for (const AttentionSequence& sequence : args.sequences) {
    if (sequence.tokens == 0) continue;
    if (!next.has_room(sequence)) next.issue(stream, ring, launch);
    next.add(sequence);
  }
  next.issue(stream, ring, launch);
}

}  // namespace zp::cuda
