// Residency of blocks on ranks, and the order in which they leave.
#include "zp/cache/prefix_index.h"

#include <algorithm>

#include "zp/base/check.h"
#include "zp/base/math.h"

namespace zp {
namespace {

// That many blocks before a block is evicted its place in the tree's table is fetched, and twice as many before its
// node.
constexpr int32_t kPrefetchedBlocks = 8;

}  // namespace

PrefixIndex::PrefixIndex(std::span<const int32_t> capacities) {
  ZP_CHECK(!capacities.empty() && capacities.size() <= kMaxRanks, "{} ranks; 1 to {} are possible", capacities.size(),
           kMaxRanks);
  words_ = ceil_div<size_t>(capacities.size(), kWordRanks);
  for (const int32_t capacity : capacities)
    ranks_.push_back({.pool = BlockPool(capacity),
                      .slots = std::vector<Slot>(static_cast<size_t>(capacity)),
                      .one_off = {},
                      .reused = {}});
}

std::vector<NodeId> PrefixIndex::acquire(const SequenceBlocks& sequence) {
  std::vector<NodeId> path = tree_.acquire(sequence);
  const size_t words = static_cast<size_t>(tree_.id_limit()) * words_;
  if (resident_.size() < words) resident_.resize(words, 0);
  return path;
}

const PrefixIndex::Slot* PrefixIndex::find(NodeId node, int32_t rank) const {
  const BlockId id = block(node, rank);
  return id == kNoBlock ? nullptr : &ranks_[static_cast<size_t>(rank)].slots[static_cast<size_t>(id)];
}

PrefixIndex::Slot* PrefixIndex::find(NodeId node, int32_t rank) {
  return const_cast<Slot*>(static_cast<const PrefixIndex*>(this)->find(node, rank));
}

Residency PrefixIndex::residency(NodeId node, int32_t rank) const {
  const Slot* slot = find(node, rank);
  if (slot == nullptr) return Residency::kAbsent;
  return slot->pending ? Residency::kPending : Residency::kCommitted;
}

bool PrefixIndex::pinned(NodeId node, int32_t rank) const {
  const Slot* slot = find(node, rank);
  return slot != nullptr && slot->pins > 0;
}

bool PrefixIndex::reused(NodeId node, int32_t rank) const {
  const Slot* slot = find(node, rank);
  return slot != nullptr && slot->reused;
}

void PrefixIndex::match(std::span<const NodeId> path, std::span<int32_t> lengths) const {
  for (int32_t first = 0; first < ranks(); first += kWordRanks) {
    const std::span<int32_t> out = lengths.subspan(static_cast<size_t>(first));
    uint64_t matching = ~uint64_t{0} >> (kWordRanks - std::min(kWordRanks, ranks() - first));
    int32_t length = 0;
    for (const NodeId node : path) {
      const uint64_t still = matching & resident_[word_of(node, first)];
      for (uint64_t ended = matching & ~still; ended != 0; ended &= ended - 1)
        out[static_cast<size_t>(std::countr_zero(ended))] = length;
      matching = still;
      if (matching == 0) break;
      ++length;
    }
    for (; matching != 0; matching &= matching - 1) out[static_cast<size_t>(std::countr_zero(matching))] = length;
  }
}

// What a rank has of a path is a prefix of it, so whether any of the ranks has a block changes at one place only. It is
// looked for from the hint on in growing steps, then by halves.
PathMatch PrefixIndex::longest_match(std::span<const NodeId> path, const RankSet& ranks, int32_t hint) const {
  const auto size = static_cast<int32_t>(path.size());
  const auto has = [&](int32_t i) { return resident_on_any(path[static_cast<size_t>(i)], ranks); };
  int32_t low = std::clamp(hint, 0, size);  // the blocks before it are matched
  int32_t high = low;                       // from here on none is
  if (low < size && has(low)) {
    ++low;
    int32_t step = 1;
    for (; low + step <= size && has(low + step - 1); step *= 2) low += step;
    high = std::min(size, low + step - 1);
  } else if (high > 0 && !has(high - 1)) {
    --high;
    int32_t step = 1;
    for (; high - step >= 0 && !has(high - step); step *= 2) high -= step;
    low = std::max(0, high - step + 1);
  }
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (has(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return {.blocks = low,
          .last = low > 0 ? path[static_cast<size_t>(low - 1)] : kNoNode,
          .next = low < size ? path[static_cast<size_t>(low)] : kNoNode};
}

RoomCounts PrefixIndex::room(int32_t rank) const {
  const Rank& r = ranks_[static_cast<size_t>(rank)];
  return {.free = r.pool.free_count(),
          .one_off = r.one_off.size,
          .reused = r.reused.size,
          .one_off_pinned = r.one_off_pinned};
}

int32_t PrefixIndex::pending_count(int32_t rank) const {
  const std::vector<Slot>& slots = ranks_[static_cast<size_t>(rank)].slots;
  return static_cast<int32_t>(std::ranges::count_if(slots, &Slot::pending));
}

int32_t PrefixIndex::pin(int32_t rank, std::span<const NodeId> path) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  int32_t count = 0;
  BlockId id = kNoBlock;
  for (const NodeId node : path) {
    if (!resident(node, rank)) break;
    id = block_after(id, node, rank);
    Slot& slot = r.slots[static_cast<size_t>(id)];
    if (slot.pins == 0) {
      unlink(r, id);
    } else if (!slot.reused) {
      --r.one_off_pinned;
    }
    ++slot.pins;
    slot.reused = true;
    ++count;
  }
  return count;
}

void PrefixIndex::unpin(int32_t rank, std::span<const NodeId> path) {
  if (path.empty()) return;
  Rank& r = ranks_[static_cast<size_t>(rank)];
  BlockId id = block(path.back(), rank);
  for (size_t i = path.size(); i-- > 0;) {
    ZP_CHECK(id != kNoBlock, "rank {} does not have node {}", rank, path[i]);
    Slot& slot = r.slots[static_cast<size_t>(id)];
    ZP_CHECK(slot.node == path[i] && slot.pins > 0, "node {} has no pin on rank {}", path[i], rank);
    const BlockId unpinned = std::exchange(id, slot.parent);
    if (--slot.pins > 0 || slot.pending) continue;
    if (!slot.reused) --r.one_off_pinned;
    push_newest(r, unpinned);
  }
}

std::vector<BlockId> PrefixIndex::promise(int32_t rank, std::span<const NodeId> nodes, bool wanted) {
  std::vector<BlockId> ids(nodes.size(), kNoBlock);
  if (nodes.empty()) return ids;
  Rank& r = ranks_[static_cast<size_t>(rank)];
  const NodeId parent = tree_.parent(nodes.front());
  ZP_CHECK(tree_.is_root(parent) || pinned(parent, rank), "the parent of node {} is not pinned", nodes.front());
  make_room(rank, static_cast<int32_t>(ids.size()));
  BlockId before = tree_.is_root(parent) ? kNoBlock : block(parent, rank);
  r.pool.allocate(ids, before);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeId node = nodes[i];
    ZP_CHECK(!resident(node, rank), "rank {} has node {} already", rank, node);
    r.slots[static_cast<size_t>(ids[i])] =
        Slot{.node = node, .parent = before, .pins = 1, .pending = true, .reused = wanted};
    if (!wanted) ++r.one_off_pinned;
    blocks_.insert(node, rank, ids[i]);
    resident_[word_of(node, rank)] |= uint64_t{1} << (rank % kWordRanks);
    tree_.hold(node);
    if (before != kNoBlock) ++r.slots[static_cast<size_t>(before)].children;
    before = ids[i];
  }
  return ids;
}

void PrefixIndex::commit(int32_t rank, NodeId node) {
  Slot* slot = find(node, rank);
  ZP_CHECK(slot != nullptr && slot->pending && slot->pins > 0, "rank {} does not expect node {}", rank, node);
  slot->pending = false;
}

void PrefixIndex::withdraw(int32_t rank, NodeId node) {
  Slot* slot = find(node, rank);
  ZP_CHECK(slot != nullptr && slot->pending, "rank {} does not expect node {}", rank, node);
  ZP_CHECK(slot->pins == 0, "node {} is relied on by {}", node, slot->pins);
  if (!slot->reused) --ranks_[static_cast<size_t>(rank)].one_off_pinned;
  remove(rank, block(node, rank));
}

PrefixIndex::List& PrefixIndex::list_of(Rank& rank, BlockId block) {
  return rank.slots[static_cast<size_t>(block)].reused ? rank.reused : rank.one_off;
}

void PrefixIndex::push_newest(Rank& rank, BlockId block) {
  List& list = list_of(rank, block);
  Slot& slot = rank.slots[static_cast<size_t>(block)];
  slot.older = list.newest;
  slot.newer = kNoBlock;
  (list.newest == kNoBlock ? list.oldest : rank.slots[static_cast<size_t>(list.newest)].newer) = block;
  list.newest = block;
  ++list.size;
}

void PrefixIndex::unlink(Rank& rank, BlockId block) {
  List& list = list_of(rank, block);
  Slot& slot = rank.slots[static_cast<size_t>(block)];
  (slot.older == kNoBlock ? list.oldest : rank.slots[static_cast<size_t>(slot.older)].newer) = slot.newer;
  (slot.newer == kNoBlock ? list.newest : rank.slots[static_cast<size_t>(slot.newer)].older) = slot.older;
  slot.older = kNoBlock;
  slot.newer = kNoBlock;
  --list.size;
}

// Evicts until so many blocks are free. What eviction touches is fetched ahead: first nodes, then, since those say
// where, their places in the tree's table.
void PrefixIndex::make_room(int32_t rank, int32_t blocks) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  if (r.pool.free_count() >= blocks) return;
  BlockId near = r.one_off.oldest != kNoBlock ? r.one_off.oldest : r.reused.oldest;
  BlockId far = near;
  const auto take = [&r](BlockId& ahead, auto&& prefetch) {
    if (ahead == kNoBlock) return;
    const Slot& slot = r.slots[static_cast<size_t>(ahead)];
    prefetch(slot.node);
    ahead = slot.newer;
  };
  const auto fetch_node = [&] { take(far, [this](NodeId node) { tree_.prefetch_node(node); }); };
  const auto fetch_place = [&] { take(near, [this](NodeId node) { tree_.prefetch_place(node); }); };
  for (int32_t i = 0; i < kPrefetchedBlocks; ++i) fetch_node();
  for (int32_t i = 0; i < kPrefetchedBlocks; ++i) {
    fetch_node();
    fetch_place();
  }
  while (r.pool.free_count() < blocks) {
    fetch_node();
    fetch_place();
    evict_oldest(rank);
  }
}

void PrefixIndex::evict_oldest(int32_t rank) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  const BlockId victim = r.one_off.oldest != kNoBlock ? r.one_off.oldest : r.reused.oldest;
  ZP_CHECK(victim != kNoBlock, "rank {} has no block to evict", rank);
  unlink(r, victim);
  remove(rank, victim);
  ++r.evictions;
}

// Forgets a block that is in no list and gives its place back.
void PrefixIndex::remove(int32_t rank, BlockId block) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  Slot& slot = r.slots[static_cast<size_t>(block)];
  const NodeId node = slot.node;
  ZP_CHECK(slot.children == 0, "node {} has {} children on rank {}", node, slot.children, rank);
  if (slot.parent != kNoBlock) --r.slots[static_cast<size_t>(slot.parent)].children;
  slot = Slot{};
  r.pool.free(block);
  blocks_.erase(node, rank);
  resident_[word_of(node, rank)] &= ~(uint64_t{1} << (rank % kWordRanks));
  tree_.unhold(node);
}

void PrefixIndex::check_invariants() const {
  tree_.check_invariants();
  blocks_.check_invariants();
  size_t used = 0;
  for (const Rank& rank : ranks_) used += static_cast<size_t>(rank.pool.capacity() - rank.pool.free_count());
  ZP_CHECK(blocks_.size() == used, "{} blocks of ranks are known, {} are used", blocks_.size(), used);
  for (int32_t rank = 0; rank < ranks(); ++rank) check_rank(rank);
}

void PrefixIndex::check_rank(int32_t rank) const {
  const Rank& r = ranks_[static_cast<size_t>(rank)];
  r.pool.check_invariants();
  int32_t one_off_pinned = 0;
  int32_t unpinned = 0;
  std::vector<int32_t> children(r.slots.size(), 0);
  for (size_t i = 0; i < r.slots.size(); ++i) {
    const Slot& slot = r.slots[i];
    const auto id = static_cast<BlockId>(i);
    ZP_CHECK((slot.node == kNoNode) == r.pool.is_free(id), "block {} of rank {}: node {}", i, rank, slot.node);
    if (slot.node == kNoNode) continue;
    ZP_CHECK(block(slot.node, rank) == id && resident(slot.node, rank), "node {} is not in block {}", slot.node, i);
    ZP_CHECK(slot.pins > 0 || !slot.pending, "pending node {} has no pin", slot.node);
    if (slot.pins == 0) ++unpinned;
    if (slot.pins > 0 && !slot.reused) ++one_off_pinned;
    const NodeId parent = tree_.parent(slot.node);
    ZP_CHECK(slot.parent == block(parent, rank), "block {} comes after {}, not {}", i, block(parent, rank),
             slot.parent);
    if (tree_.is_root(parent)) continue;
    const Slot* before = find(parent, rank);
    ZP_CHECK(before != nullptr, "rank {} has node {} without its parent", rank, slot.node);
    ZP_CHECK(before->pins > 0 || slot.pins == 0, "node {} is pinned, its parent is not", slot.node);
    ZP_CHECK(before->reused || !slot.reused, "node {} is reused, its parent is not", slot.node);
    ++children[static_cast<size_t>(block(parent, rank))];
  }
  for (size_t i = 0; i < r.slots.size(); ++i)
    ZP_CHECK(r.slots[i].children == children[i], "block {} has {} children, {} counted", i, children[i],
             r.slots[i].children);
  ZP_CHECK(one_off_pinned == r.one_off_pinned, "{} pinned one-offs, {} counted", one_off_pinned, r.one_off_pinned);
  ZP_CHECK(unpinned == r.one_off.size + r.reused.size, "{} unpinned blocks, {} listed", unpinned,
           r.one_off.size + r.reused.size);
  check_list(rank, r.one_off);
  check_list(rank, r.reused);
}

void PrefixIndex::check_list(int32_t rank, const List& list) const {
  const Rank& r = ranks_[static_cast<size_t>(rank)];
  std::vector<bool> seen(r.slots.size(), false);
  BlockId older = kNoBlock;
  int32_t size = 0;
  for (BlockId id = list.oldest; id != kNoBlock; id = r.slots[static_cast<size_t>(id)].newer) {
    const Slot& slot = r.slots[static_cast<size_t>(id)];
    ZP_CHECK(++size <= list.size, "a list of {} has a loop", list.size);
    ZP_CHECK(slot.older == older, "block {}: older is {}, not {}", id, slot.older, older);
    ZP_CHECK(slot.pins == 0 && slot.reused == (&list == &r.reused), "block {} is in the wrong list", id);
    const BlockId parent = block(tree_.parent(slot.node), rank);
    ZP_CHECK(parent == kNoBlock || !seen[static_cast<size_t>(parent)], "block {} comes after its parent", id);
    seen[static_cast<size_t>(id)] = true;
    older = id;
  }
  ZP_CHECK(size == list.size && older == list.newest, "a list has {} blocks, {} counted", size, list.size);
}

}  // namespace zp
