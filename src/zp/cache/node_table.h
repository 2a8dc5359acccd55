// Finds the nodes of blocks by their hashes; what a node is, only its owner knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zp {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

/// Open addressing with linear probing over 32 bits of a hash, the tag; several nodes may have the same. Invariants: at
/// most half of the places are used, which keeps searches short; no place between an entry and the one where its tag
/// points is free. So searching and erasing touch no node but those of the same tag. Memory: 8 bytes a place, so 16 to
/// 32 a node. Never shrinks.
class NodeTable final {
 public:
  NodeTable();

  /// The first node of this tag for which `matches(node)` holds, or kNoNode.
  template <typename Matches>
  [[nodiscard]] NodeId find(uint32_t tag, Matches&& matches) const {
    for (size_t place = home_of(tag); places_[place].node != kNoNode; place = after(place))
      if (places_[place].tag == tag && matches(places_[place].node)) return places_[place].node;
    return kNoNode;
  }
  /// Requires that the node is not in the table.
  void insert(uint32_t tag, NodeId node);
  /// Requires that the node is in the table, under this tag.
  void erase(uint32_t tag, NodeId node);
  /// Brings the place of a tag near, since it is about to be looked at.
  void prefetch(uint32_t tag) const noexcept { __builtin_prefetch(&places_[home_of(tag)]); }

  [[nodiscard]] size_t size() const noexcept { return size_; }
  /// Calls `use(tag, node)` for each entry.
  template <typename Use>
  void for_each(Use&& use) const {
    for (const Place& place : places_)
      if (place.node != kNoNode) use(place.tag, place.node);
  }

  /// Aborts when an invariant does not hold. O(places).
  void check_invariants() const;

 private:
  struct Place {
    uint32_t tag = 0;
    NodeId node = kNoNode;
  };

  [[nodiscard]] size_t mask() const noexcept { return places_.size() - 1; }
  [[nodiscard]] size_t home_of(uint32_t tag) const noexcept { return tag & mask(); }
  [[nodiscard]] size_t after(size_t place) const noexcept { return (place + 1) & mask(); }
  [[nodiscard]] size_t free_place(uint32_t tag) const noexcept;
  void grow();

  std::vector<Place> places_;  ///< a power of two of them
  size_t size_ = 0;
};

}  // namespace zp
