// In which order do the neighbours of a word merge?
#include "zp/tokenizer/merge_symbols.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <queue>

namespace zp::tokenizer {
namespace {

// Up to this many symbols, scanning all ranks for the lowest beats a heap.
constexpr std::size_t kScanSymbolsMax = 64;

void merge_short(const MergeTable& merges, std::vector<int32_t>& symbols, std::size_t begin) {
  std::array<Merge, kScanSymbolsMax> pairs;  // pairs[i]: what symbols i and i + 1 merge into
  int32_t* const symbol = symbols.data() + begin;
  std::size_t count = symbols.size() - begin;
  for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.find(symbol[i], symbol[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == Merge::kNever) break;
    symbol[best] = pairs[best].id;
    std::copy(symbol + best + 2, symbol + count, symbol + best + 1);
    std::copy(pairs.begin() + best + 1, pairs.begin() + count - 1, pairs.begin() + best);
    --count;
    if (best + 1 < count) pairs[best] = merges.find(symbol[best], symbol[best + 1]);
    if (best > 0) pairs[best - 1] = merges.find(symbol[best - 1], symbol[best]);
  }
  symbols.resize(begin + count);
}

// A merge that was possible when it was queued. It is stale once either symbol has changed.
struct Candidate {
  uint32_t rank;
  uint32_t left;
  int32_t id;
};

struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }
};

/// A word as a doubly linked list of symbols with a heap of possible merges.
class LongWord final {
 public:
  LongWord(const MergeTable& merges, std::vector<int32_t>& symbols, std::size_t begin)
      : merges_(merges), symbols_(symbols), begin_(begin), count_(static_cast<uint32_t>(symbols.size() - begin)) {
    next_.resize(count_);
    previous_.resize(count_);
    for (uint32_t i = 0; i < count_; ++i) {
      next_[i] = i + 1;
      previous_[i] = i == 0 ? kNone : i - 1;
    }
  }

  void merge_all() {
    for (uint32_t i = 0; i + 1 < count_; ++i) push(i);
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      if (symbol(top.left) == kMerged || next_[top.left] == count_) continue;
      const uint32_t right = next_[top.left];
      if (merges_.find(symbol(top.left), symbol(right)).id != top.id) continue;
      symbol(top.left) = top.id;
      symbol(right) = kMerged;
      next_[top.left] = next_[right];
      if (next_[right] != count_) previous_[next_[right]] = top.left;
      if (previous_[top.left] != kNone) push(previous_[top.left]);
      push(top.left);
    }
    symbols_.erase(std::remove(symbols_.begin() + static_cast<std::ptrdiff_t>(begin_), symbols_.end(), kMerged),
                   symbols_.end());
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr int32_t kMerged = -1;

  int32_t& symbol(uint32_t index) { return symbols_[begin_ + index]; }

  void push(uint32_t left) {
    if (next_[left] == count_) return;
    const Merge merge = merges_.find(symbol(left), symbol(next_[left]));
    if (merge.rank != Merge::kNever) queue_.push({merge.rank, left, merge.id});
  }

  const MergeTable& merges_;
  std::vector<int32_t>& symbols_;
  std::size_t begin_;
  uint32_t count_;
  std::vector<uint32_t> next_;      // count_: none
  std::vector<uint32_t> previous_;  // kNone: none
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue_;
};

}  // namespace

void merge_symbols(const MergeTable& merges, std::vector<int32_t>& symbols, std::size_t begin) {
  const std::size_t count = symbols.size() - begin;
  if (count < 2) return;
  if (count <= kScanSymbolsMax) {
    merge_short(merges, symbols, begin);
  } else {
    LongWord(merges, symbols, begin).merge_all();
  }
}

}  // namespace zp::tokenizer
