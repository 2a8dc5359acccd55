// A hash map from nodes to small values that is cheap to make and to fill: planning makes one for each rank and plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zp/cache/block_tree.h"

namespace zp {

/// Open addressing; entries are only added. Invariant: at most half of the slots are used. Pointers that it gives out
/// hold until the next insertion.
template <typename Value>
class NodeMap final {
 public:
  [[nodiscard]] const Value* find(NodeId node) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[index_of(node)];
    return slot.node == node ? &slot.value : nullptr;
  }
  [[nodiscard]] Value* find(NodeId node) { return const_cast<Value*>(static_cast<const NodeMap*>(this)->find(node)); }

  /// Adds a node that is not in the map yet, or does nothing; true if it was added.
  bool insert(NodeId node, const Value& value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[index_of(node)];
    if (slot.node == node) return false;
    slot = {node, value};
    ++size_;
    return true;
  }

 private:
  struct Slot {
    NodeId node = kNoNode;
    Value value{};
  };

  // The slot of the node, or the free one where it belongs.
  [[nodiscard]] size_t index_of(NodeId node) const {
    const size_t mask = slots_.size() - 1;
    // Fibonacci hashing: node ids are small and dense, the multiplication spreads them.
    size_t i = (static_cast<uint64_t>(node) * 0x9E3779B97F4A7C15ULL >> 20) & mask;
    while (slots_[i].node != kNoNode && slots_[i].node != node) i = (i + 1) & mask;
    return i;
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 256 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.node != kNoNode) slots_[index_of(slot.node)] = slot;
  }

  std::vector<Slot> slots_;  ///< a power of two of them
  size_t size_ = 0;
};

}  // namespace zp
