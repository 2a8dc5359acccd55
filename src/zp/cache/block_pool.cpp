// Best fit over the free runs of groups of eight blocks.
#include "zp/cache/block_pool.h"

#include <algorithm>
#include <bit>

#include "zp/base/check.h"
#include "zp/base/math.h"

namespace zp {
namespace {

struct Run {
  int32_t first = 0;
  int32_t length = 0;
};

// The longest run of ones in a mask; of equal ones, the first.
constexpr Run longest_run(uint32_t mask) {
  Run best;
  for (int32_t first = 0; first < kGroupBlocks;) {
    const int32_t length = std::countr_one(mask >> first);
    if (length > best.length) best = {first, length};
    first += length + 1;
  }
  return best;
}

constexpr auto kLongestRuns = [] {
  std::array<Run, 1U << kGroupBlocks> runs{};
  for (uint32_t mask = 0; mask < runs.size(); ++mask) runs[mask] = longest_run(mask);
  return runs;
}();

}  // namespace

BlockPool::BlockPool(int32_t capacity) : capacity_(capacity) {
  ZP_CHECK(capacity >= 0, "capacity is {}", capacity);
  heads_.fill(kNoGroup);
  groups_.resize(static_cast<size_t>(ceil_div(capacity, kGroupBlocks)));
  // Every group is listed, also the full ones, so that set_mask() can always take a group out of a list.
  for (int32_t group = static_cast<int32_t>(groups_.size()) - 1; group >= 0; --group) {
    Group& g = groups_[static_cast<size_t>(group)];
    g.next = heads_[0];
    if (g.next != kNoGroup) groups_[static_cast<size_t>(g.next)].previous = group;
    heads_[0] = group;
  }
  // From the last group to the first, so that the first one is at the head.
  for (int32_t group = static_cast<int32_t>(groups_.size()) - 1; group >= 0; --group) {
    const int32_t blocks = std::min(kGroupBlocks, capacity - group * kGroupBlocks);
    set_mask(group, static_cast<uint8_t>((1U << blocks) - 1U));
    free_count_ += blocks;
  }
}

bool BlockPool::is_free(BlockId block) const {
  ZP_CHECK(block >= 0 && block < capacity_, "block {} of {}", block, capacity_);
  return (groups_[static_cast<size_t>(block / kGroupBlocks)].free_mask >> (block % kGroupBlocks) & 1) != 0;
}

void BlockPool::allocate(std::span<BlockId> out, BlockId after) {
  ZP_CHECK(static_cast<int64_t>(out.size()) <= free_count_, "{} blocks wanted, {} free", out.size(), free_count_);
  if (after != kNoBlock && (after + 1) % kGroupBlocks != 0) {
    const int32_t taken = take_run(after / kGroupBlocks, after % kGroupBlocks + 1, out);
    out = out.subspan(static_cast<size_t>(taken));
  }
  while (!out.empty()) {
    const int32_t wanted = std::min(kGroupBlocks, static_cast<int32_t>(out.size()));
    int32_t length = wanted;
    while (length <= kGroupBlocks && heads_[static_cast<size_t>(length)] == kNoGroup) ++length;
    if (length > kGroupBlocks) {
      length = wanted - 1;
      while (heads_[static_cast<size_t>(length)] == kNoGroup) --length;
    }
    const int32_t group = heads_[static_cast<size_t>(length)];
    const Run run = kLongestRuns[groups_[static_cast<size_t>(group)].free_mask];
    const int32_t taken = take_run(group, run.first, out);
    ZP_CHECK(taken > 0, "group {} was listed under a run of {}", group, length);
    out = out.subspan(static_cast<size_t>(taken));
  }
}

void BlockPool::free(BlockId block) {
  ZP_CHECK(!is_free(block), "block {} is free already", block);
  const int32_t group = block / kGroupBlocks;
  const uint32_t bit = 1U << (block % kGroupBlocks);
  set_mask(group, static_cast<uint8_t>(groups_[static_cast<size_t>(group)].free_mask | bit));
  ++free_count_;
}

// Takes the free blocks of a group from `first` on, up to the first used one; returns how many.
int32_t BlockPool::take_run(int32_t group, int32_t first, std::span<BlockId> out) {
  const uint32_t mask = groups_[static_cast<size_t>(group)].free_mask;
  const int32_t count = std::min(std::countr_one(mask >> first), static_cast<int32_t>(out.size()));
  if (count == 0) return 0;
  for (int32_t i = 0; i < count; ++i) out[static_cast<size_t>(i)] = group * kGroupBlocks + first + i;
  const uint32_t taken = ((1U << count) - 1U) << first;
  set_mask(group, static_cast<uint8_t>(mask & ~taken));
  free_count_ -= count;
  return count;
}

void BlockPool::set_mask(int32_t group, uint8_t mask) {
  Group& g = groups_[static_cast<size_t>(group)];
  const auto list = [](uint8_t m) { return static_cast<size_t>(kLongestRuns[m].length); };
  const size_t from = list(g.free_mask);
  const size_t to = list(mask);
  g.free_mask = mask;
  if (from == to) return;
  (g.previous == kNoGroup ? heads_[from] : groups_[static_cast<size_t>(g.previous)].next) = g.next;
  if (g.next != kNoGroup) groups_[static_cast<size_t>(g.next)].previous = g.previous;
  g.previous = kNoGroup;
  g.next = heads_[to];
  if (g.next != kNoGroup) groups_[static_cast<size_t>(g.next)].previous = group;
  heads_[to] = group;
}

void BlockPool::check_invariants() const {
  int32_t free_blocks = 0;
  size_t listed = 0;
  for (size_t length = 0; length < heads_.size(); ++length) {
    int32_t previous = kNoGroup;
    for (int32_t group = heads_[length]; group != kNoGroup; group = groups_[static_cast<size_t>(group)].next) {
      const Group& g = groups_[static_cast<size_t>(group)];
      ZP_CHECK(g.previous == previous, "group {}: previous is {}, not {}", group, g.previous, previous);
      ZP_CHECK(longest_run(g.free_mask).length == static_cast<int32_t>(length), "group {} is listed under {}", group,
               length);
      free_blocks += std::popcount(g.free_mask);
      previous = group;
      ZP_CHECK(++listed <= groups_.size(), "the list of runs of {} has a loop", length);
    }
  }
  ZP_CHECK(listed == groups_.size(), "{} of {} groups are listed", listed, groups_.size());
  ZP_CHECK(free_blocks == free_count_, "{} blocks are free, {} counted", free_blocks, free_count_);
  if (capacity_ % kGroupBlocks != 0) {
    const uint32_t beyond = 0xFFU << (capacity_ % kGroupBlocks) & 0xFFU;
    ZP_CHECK((groups_.back().free_mask & beyond) == 0, "blocks beyond capacity {} are free", capacity_);
  }
}

}  // namespace zp
