// The blocks that anybody knows of, as a tree: a node is its parent and its 16 tokens, whatever its hash.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "zp/cache/block_hash.h"
#include "zp/cache/node_table.h"

namespace zp {

/// A sequence as the tree sees it: borrowed for one call.
struct SequenceBlocks {
  std::string_view cache_namespace;
  std::span<const int32_t> tokens;  ///< the whole sequence
  const BlockChain* chain = nullptr;
};

/// Invariant: two live nodes never have the same parent and the same tokens, and every live node has a reference, a
/// hold or a child. Roots stand for cache namespaces, compared as strings. Memory: 64 bytes a node for its
/// tokens, 24 for its links and counts, 16 to 32 in the NodeTable; nodes are at most the blocks referenced and held.
/// Not thread-safe; owned by the scheduler's thread.
class BlockTree final {
 public:
  /// The nodes of a sequence's whole blocks, made where they do not exist yet; each gets one reference. O(blocks).
  [[nodiscard]] std::vector<NodeId> acquire(const SequenceBlocks& sequence);
  /// Gives back what acquire() took. Nodes that nobody needs any more vanish.
  void release(std::span<const NodeId> path);
  /// A hold keeps a node alive while a rank has the block.
  void hold(NodeId node);
  void unhold(NodeId node);
  /// Brings near what removing the node will touch: the node itself, and then its place in the table.
  void prefetch_node(NodeId node) const noexcept { __builtin_prefetch(&nodes_[static_cast<size_t>(node)], 1); }
  void prefetch_place(NodeId node) const noexcept { table_.prefetch(nodes_[static_cast<size_t>(node)].tag); }

  /// The block before this one; a root for the first block of a sequence.
  [[nodiscard]] NodeId parent(NodeId node) const { return nodes_[static_cast<size_t>(node)].parent; }
  [[nodiscard]] bool is_root(NodeId node) const { return parent(node) == kNoNode; }
  [[nodiscard]] int32_t references(NodeId node) const { return nodes_[static_cast<size_t>(node)].references; }
  /// Blocks that no rank has: they are in sequences that were acquired and not released.
  [[nodiscard]] int32_t unheld() const noexcept { return unheld_; }
  /// Live nodes, roots included.
  [[nodiscard]] int32_t size() const noexcept { return live_; }
  /// Node ids are smaller than this; they are used again.
  [[nodiscard]] int32_t id_limit() const noexcept { return static_cast<int32_t>(nodes_.size()); }

  void check_invariants() const;

 private:
  using Tokens = std::array<int32_t, kBlockTokens>;
  struct Node {
    NodeId parent = kNoNode;
    uint32_t tag = 0;  ///< in table_; the low bits of the hash
    int32_t references = 0;
    int32_t holds = 0;
    int32_t children = 0;
    bool live = false;
  };

  NodeId root(std::string_view cache_namespace);
  NodeId find_or_make(NodeId parent, uint32_t tag, std::span<const int32_t> tokens);
  NodeId make(NodeId parent, uint32_t tag);
  void prune(NodeId node);

  std::vector<Node> nodes_;
  std::vector<Tokens> tokens_;  ///< [nodes]; apart, since they matter only when a block is looked for
  std::vector<NodeId> unused_;
  NodeTable table_;  ///< all live nodes but roots
  std::unordered_map<std::string, NodeId> roots_;
  std::unordered_map<NodeId, std::string> root_names_;
  int32_t live_ = 0;
  int32_t unheld_ = 0;  ///< live nodes without a hold, but for roots
};

}  // namespace zp
