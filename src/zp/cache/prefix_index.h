// Which rank holds, or expects, which block: one index for all ranks, and each rank's kept blocks in order of eviction.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "zp/cache/block_pool.h"
#include "zp/cache/block_tree.h"
#include "zp/cache/residency_map.h"

namespace zp {

/// More ranks than one scheduler should have; masks of ranks grow by 8 bytes a node for each 64 of them.
inline constexpr int32_t kMaxRanks = 1024;

/// What a rank knows of a block. A block that lives only inside one step is no state of the index: it is in that step's
/// plan alone, and nobody can find it from outside.
enum class Residency : uint8_t {
  kAbsent,
  kPending,    ///< promised by a step that has not finished; has its pool block
  kCommitted,  ///< its keys and values are in its pool block
};

/// How many of a rank's blocks could be had, and at what price.
struct RoomCounts {
  int32_t free = 0;
  int32_t one_off = 0;         ///< evictable, never reused
  int32_t reused = 0;          ///< evictable, reused at least once (or known to be wanted again)
  int32_t one_off_pinned = 0;  ///< never reused so far, but a step is using them
};

/// Some of an index's ranks.
class RankSet final {
 public:
  static constexpr int32_t kWordRanks = 64;

  explicit RankSet(int32_t ranks) : words_(static_cast<size_t>((ranks + kWordRanks - 1) / kWordRanks), 0) {}
  void add(int32_t rank) { words_[static_cast<size_t>(rank / kWordRanks)] |= uint64_t{1} << (rank % kWordRanks); }
  /// [ranks / 64, rounded up]: bit r of word w is rank 64 w + r.
  [[nodiscard]] std::span<const uint64_t> words() const noexcept { return words_; }

 private:
  std::vector<uint64_t> words_;
};

/// The longest match of a path on some ranks, with the nodes that tell whether it still is.
struct PathMatch {
  int32_t blocks = 0;
  NodeId last = kNoNode;  ///< of the path: the last that one of the ranks has; none: no rank has the first
  NodeId next = kNoNode;  ///< the first that none of the ranks has; none: the path ends
};

/// Invariants, for each rank:
/// - a block is resident (pending or committed) only if its parent is: what a rank has of a sequence is a prefix of it;
/// - pinning a block pins everything before it, so an unpinned block has no pinned descendant;
/// - a reused block's parent is reused;
/// - an unpinned committed block is in one of two lists, the one-offs or the reused, oldest use first, and in its list
///   it comes before its parent. Eviction takes the front of the one-offs, then the front of the reused: so always a
///   block without resident children, in O(1).
/// The two lists are what keeps a burst of suffixes, each read once, from pushing out a prefix that is read often.
/// Memory: for each node BlockTree's 104 to 120 bytes, 8 for each 64 ranks and 8 in the ResidencyMap; for each block
/// that a rank has, 28 bytes, and 16 to 32 in the ResidencyMap unless it is the first rank. So with at most 64 ranks
/// 148 to 164 bytes a cached block that one rank has. Not thread-safe; owned by the scheduler's thread.
class PrefixIndex final {
 public:
  /// One pool a rank, of `capacities[rank]` blocks. Requires 1 to kMaxRanks ranks.
  explicit PrefixIndex(std::span<const int32_t> capacities);

  [[nodiscard]] int32_t ranks() const noexcept { return static_cast<int32_t>(ranks_.size()); }
  [[nodiscard]] const BlockTree& tree() const noexcept { return tree_; }

  /// The nodes of a sequence's whole blocks, kept alive until release().
  [[nodiscard]] std::vector<NodeId> acquire(const SequenceBlocks& sequence);
  void release(std::span<const NodeId> path) { tree_.release(path); }

  /// The rank holds or expects the block.
  [[nodiscard]] bool resident(NodeId node, int32_t rank) const {
    return (resident_[word_of(node, rank)] >> (rank % kWordRanks) & 1U) != 0;
  }
  /// The pool block, or kNoBlock.
  [[nodiscard]] BlockId block(NodeId node, int32_t rank) const { return blocks_.find(node, rank); }
  /// The same where `before` is the pool block of the block before it, or kNoBlock: quicker, since most blocks of a
  /// sequence lie side by side.
  [[nodiscard]] BlockId block_after(BlockId before, NodeId node, int32_t rank) const {
    const std::vector<Slot>& slots = ranks_[static_cast<size_t>(rank)].slots;
    const BlockId next = before + 1;
    if (std::cmp_less(next, slots.size()) && slots[static_cast<size_t>(next)].node == node) return next;
    return block(node, rank);
  }
  [[nodiscard]] Residency residency(NodeId node, int32_t rank) const;
  [[nodiscard]] bool pinned(NodeId node, int32_t rank) const;
  [[nodiscard]] bool reused(NodeId node, int32_t rank) const;
  /// For each rank, how many of the path's first blocks it holds or expects. `lengths` has ranks() entries. O(blocks
  /// that any of 64 ranks has), for each 64 ranks.
  void match(std::span<const NodeId> path, std::span<int32_t> lengths) const;

  /// How many of the path's first blocks one of these ranks holds or expects: the longest length of match(). O(log of
  /// the distance from `hint`, which is any number).
  [[nodiscard]] PathMatch longest_match(std::span<const NodeId> path, const RankSet& ranks, int32_t hint = 0) const;
  /// The match is what longest_match() would give for its path. O(1). Requires that the path's nodes were not released
  /// since; for any ranks.
  [[nodiscard]] bool holds(const PathMatch& match, const RankSet& ranks) const {
    return (match.last == kNoNode || resident_on_any(match.last, ranks)) &&
           (match.next == kNoNode || !resident_on_any(match.next, ranks));
  }

  [[nodiscard]] RoomCounts room(int32_t rank) const;
  /// Blocks that the rank expects. O(capacity); for checks.
  [[nodiscard]] int32_t pending_count(int32_t rank) const;
  [[nodiscard]] const BlockPool& pool(int32_t rank) const { return ranks_[static_cast<size_t>(rank)].pool; }
  /// Blocks evicted from this rank so far.
  [[nodiscard]] int64_t evictions(int32_t rank) const { return ranks_[static_cast<size_t>(rank)].evictions; }

  /// Pins the resident blocks at the start of `path`, which are about to be read: they count as reused, and are not
  /// evicted until as many unpin() calls. `path` begins where a sequence does, or where an earlier pin() of it ended.
  /// Returns how many blocks were pinned.
  int32_t pin(int32_t rank, std::span<const NodeId> path);
  /// Takes back one pin of each block of `path`, the start of a sequence; last block first, so that children come to be
  /// older than parents.
  void unpin(int32_t rank, std::span<const NodeId> path);

  /// Gives absent blocks, consecutive in one sequence, a pool block each; they are pending and have one pin, their
  /// maker's. Evicts as many unpinned blocks as that takes. `wanted` counts as reused at once. Requires a pinned (or
  /// root) parent, and room. The result is in the order of `nodes`.
  [[nodiscard]] std::vector<BlockId> promise(int32_t rank, std::span<const NodeId> nodes, bool wanted);
  /// A pending block's keys and values are in place.
  void commit(int32_t rank, NodeId node);
  /// A pending block will not come. Requires that nothing relies on it: no pins, no resident child.
  void withdraw(int32_t rank, NodeId node);

  /// Aborts when an invariant above does not hold. O(everything).
  void check_invariants() const;

 private:
  struct Slot {  ///< one pool block
    NodeId node = kNoNode;
    BlockId older = kNoBlock;
    BlockId newer = kNoBlock;
    BlockId parent = kNoBlock;  ///< the rank's block of the parent; none: the parent is a root
    int32_t pins = 0;
    int32_t children = 0;  ///< resident children
    bool pending = false;
    bool reused = false;
  };
  struct List {  ///< of committed blocks with no pins
    BlockId oldest = kNoBlock;
    BlockId newest = kNoBlock;
    int32_t size = 0;
  };
  struct Rank {
    BlockPool pool;
    std::vector<Slot> slots;  ///< [pool capacity]
    List one_off;
    List reused;
    int32_t one_off_pinned = 0;  ///< slots that are neither reused nor listed
    int64_t evictions = 0;
  };

  Slot* find(NodeId node, int32_t rank);
  [[nodiscard]] const Slot* find(NodeId node, int32_t rank) const;
  static List& list_of(Rank& rank, BlockId block);
  static void push_newest(Rank& rank, BlockId block);
  static void unlink(Rank& rank, BlockId block);
  void make_room(int32_t rank, int32_t blocks);
  void evict_oldest(int32_t rank);
  void remove(int32_t rank, BlockId block);
  void check_rank(int32_t rank) const;
  void check_list(int32_t rank, const List& list) const;

  static constexpr int32_t kWordRanks = RankSet::kWordRanks;
  [[nodiscard]] bool resident_on_any(NodeId node, const RankSet& ranks) const {
    const uint64_t* resident = &resident_[static_cast<size_t>(node) * words_];
    for (const uint64_t word : ranks.words())
      if ((*resident++ & word) != 0) return true;
    return false;
  }
  [[nodiscard]] size_t word_of(NodeId node, int32_t rank) const {
    return static_cast<size_t>(node) * words_ + static_cast<size_t>(rank / kWordRanks);
  }

  BlockTree tree_;
  std::vector<Rank> ranks_;
  size_t words_ = 1;                ///< of a mask of ranks
  std::vector<uint64_t> resident_;  ///< [node][word]; bit r of word w: rank 64 w + r has the block
  ResidencyMap blocks_;
};

}  // namespace zp
