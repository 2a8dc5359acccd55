// Which pool block a rank has for a node: one table for all ranks, so that memory grows with what is resident and not
// with nodes times ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zp/cache/block_pool.h"
#include "zp/cache/block_tree.h"

namespace zp {

/// Most blocks are on one rank only: the first rank that has a node lies in an array by node, so that the blocks of a
/// sequence are found side by side; further ranks lie in a table with open addressing and linear probing. Invariants:
/// an entry is in one of the two; at most three quarters of the table's places are used; no place between an entry and
/// the one where its hash points is free. Memory: 8 bytes a node, and 16 to 32 for each rank that has it besides the
/// first. Never shrinks.
class ResidencyMap final {
 public:
  /// kNoBlock if there is none.
  [[nodiscard]] BlockId find(NodeId node, int32_t rank) const noexcept {
    const auto i = static_cast<size_t>(node);
    if (i < first_.size() && first_[i].rank == rank) return first_[i].block;
    if (further_ == 0) return kNoBlock;
    const size_t place = place_of(key_of(node, rank));
    return keys_[place] == kFree ? kNoBlock : blocks_[place];
  }
  /// Requires that there is none.
  void insert(NodeId node, int32_t rank, BlockId block);
  /// Requires that there is one.
  void erase(NodeId node, int32_t rank);
  [[nodiscard]] size_t size() const noexcept { return firsts_ + further_; }

  void check_invariants() const;

 private:
  struct First {
    int32_t rank = -1;  ///< none
    BlockId block = kNoBlock;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};

  static uint64_t key_of(NodeId node, int32_t rank) noexcept {
    return static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32 | static_cast<uint32_t>(rank);
  }
  [[nodiscard]] size_t mask() const noexcept { return keys_.size() - 1; }
  [[nodiscard]] size_t home_of(uint64_t key) const noexcept {
    // Nodes and ranks are small and dense: two rounds of multiplication spread them over all bits.
    key = (key ^ (key >> 32)) * 0x9E3779B97F4A7C15ULL;
    key = (key ^ (key >> 29)) * 0xBF58476D1CE4E5B9ULL;
    return (key >> 32) & mask();
  }
  /// Where the key is, or the free place where it belongs.
  [[nodiscard]] size_t place_of(uint64_t key) const noexcept {
    size_t place = home_of(key);
    while (keys_[place] != key && keys_[place] != kFree) place = (place + 1) & mask();
    return place;
  }
  void erase_further(NodeId node, int32_t rank);
  void grow();

  std::vector<First> first_;    ///< [nodes]
  std::vector<uint64_t> keys_;  ///< a power of two of them, or none
  std::vector<BlockId> blocks_;
  size_t firsts_ = 0;   ///< entries in first_, and
  size_t further_ = 0;  ///< in the table
};

}  // namespace zp
