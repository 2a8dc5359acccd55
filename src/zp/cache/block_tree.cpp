// The tree that says what the nodes found by hash are.
#include "zp/cache/block_tree.h"

#include <algorithm>

#include "zp/base/check.h"

namespace zp {
namespace {

// Whose places in the table are fetched while a block is looked for.
constexpr size_t kPrefetchedBlocks = 8;

uint32_t tag_of(BlockHash hash) { return static_cast<uint32_t>(hash.lo); }

}  // namespace

std::vector<NodeId> BlockTree::acquire(const SequenceBlocks& sequence) {
  const std::span<const BlockHash> hashes = sequence.chain->hashes();
  ZP_CHECK(hashes.size() == sequence.tokens.size() / kBlockTokens, "{} hashes for {} tokens", hashes.size(),
           sequence.tokens.size());
  std::vector<NodeId> path;
  if (hashes.empty()) return path;
  path.reserve(hashes.size());
  NodeId parent = root(sequence.cache_namespace);
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (i + kPrefetchedBlocks < hashes.size()) table_.prefetch(tag_of(hashes[i + kPrefetchedBlocks]));
    parent = find_or_make(parent, tag_of(hashes[i]), sequence.tokens.subspan(i * kBlockTokens, kBlockTokens));
    ++nodes_[static_cast<size_t>(parent)].references;
    path.push_back(parent);
  }
  return path;
}

void BlockTree::release(std::span<const NodeId> path) {
  for (size_t i = path.size(); i-- > 0;) {
    Node& node = nodes_[static_cast<size_t>(path[i])];
    ZP_CHECK(node.live && node.references > 0, "node {} has no reference", path[i]);
    --node.references;
    prune(path[i]);
  }
}

void BlockTree::hold(NodeId node) {
  if (nodes_[static_cast<size_t>(node)].holds++ == 0) --unheld_;
}

void BlockTree::unhold(NodeId node) {
  Node& n = nodes_[static_cast<size_t>(node)];
  ZP_CHECK(n.live && n.holds > 0, "node {} is not held", node);
  if (--n.holds == 0) ++unheld_;
  prune(node);
}

NodeId BlockTree::root(std::string_view cache_namespace) {
  std::string name(cache_namespace);
  if (const auto found = roots_.find(name); found != roots_.end()) return found->second;
  const NodeId node = make(kNoNode, 0);
  root_names_.emplace(node, name);
  roots_.emplace(std::move(name), node);
  return node;
}

NodeId BlockTree::find_or_make(NodeId parent, uint32_t tag, std::span<const int32_t> tokens) {
  // The hash only shortens the search. Parent and tokens decide: another tenant's or another text's block is never
  // served, whatever the hashes are.
  const NodeId found = table_.find(tag, [&](NodeId id) {
    const auto i = static_cast<size_t>(id);
    return nodes_[i].parent == parent && std::ranges::equal(tokens_[i], tokens);
  });
  if (found != kNoNode) return found;
  const NodeId id = make(parent, tag);
  std::ranges::copy(tokens, tokens_[static_cast<size_t>(id)].begin());
  table_.insert(tag, id);
  ++unheld_;
  ++nodes_[static_cast<size_t>(parent)].children;
  return id;
}

// A live node that is not in the table.
NodeId BlockTree::make(NodeId parent, uint32_t tag) {
  if (unused_.empty()) {
    unused_.push_back(id_limit());
    nodes_.emplace_back();
    tokens_.emplace_back();
  }
  const NodeId id = unused_.back();
  unused_.pop_back();
  // Nobody has looked at a removed node's tokens for long.
  if (unused_.size() > kPrefetchedBlocks)
    __builtin_prefetch(&tokens_[static_cast<size_t>(unused_[unused_.size() - kPrefetchedBlocks])], 1);
  nodes_[static_cast<size_t>(id)] = Node{.parent = parent, .tag = tag, .live = true};
  ++live_;
  return id;
}

// Removes a node that nobody needs, then its parent if that was its last use, and so on.
void BlockTree::prune(NodeId node) {
  while (node != kNoNode) {
    Node& n = nodes_[static_cast<size_t>(node)];
    if (n.references > 0 || n.holds > 0 || n.children > 0) return;
    const NodeId parent = n.parent;
    if (parent == kNoNode) {
      const auto name = root_names_.find(node);
      roots_.erase(name->second);
      root_names_.erase(name);
    } else {
      table_.erase(n.tag, node);
      --unheld_;
      --nodes_[static_cast<size_t>(parent)].children;
    }
    n.live = false;
    unused_.push_back(node);
    --live_;
    node = parent;
  }
}

void BlockTree::check_invariants() const {
  std::vector<int32_t> children(nodes_.size(), 0);
  int32_t live = 0;
  int32_t unheld = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!node.live) continue;
    ++live;
    ZP_CHECK(node.references > 0 || node.holds > 0 || node.children > 0, "nobody needs node {}", i);
    if (node.parent == kNoNode) continue;
    if (node.holds == 0) ++unheld;
    ZP_CHECK(nodes_[static_cast<size_t>(node.parent)].live, "the parent of node {} is gone", i);
    ++children[static_cast<size_t>(node.parent)];
  }
  ZP_CHECK(live == live_, "{} nodes are live, {} counted", live, live_);
  ZP_CHECK(unheld == unheld_, "{} blocks are on no rank, {} counted", unheld, unheld_);
  for (size_t i = 0; i < nodes_.size(); ++i)
    ZP_CHECK(!nodes_[i].live || nodes_[i].children == children[i], "node {} has {} children, {} counted", i,
             children[i], nodes_[i].children);

  table_.check_invariants();
  table_.for_each([&](uint32_t tag, NodeId id) {
    const Node& node = nodes_[static_cast<size_t>(id)];
    ZP_CHECK(node.live && node.tag == tag && node.parent != kNoNode, "node {} is filed under {}", id, tag);
    const NodeId other = table_.find(tag, [&](NodeId o) {
      return o != id && nodes_[static_cast<size_t>(o)].parent == node.parent &&
             tokens_[static_cast<size_t>(o)] == tokens_[static_cast<size_t>(id)];
    });
    ZP_CHECK(other == kNoNode, "nodes {} and {} are one block", id, other);
  });
  ZP_CHECK(table_.size() + roots_.size() == static_cast<size_t>(live_), "{} nodes found by hash, {} roots, {} live",
           table_.size(), roots_.size(), live_);
  ZP_CHECK(roots_.size() == root_names_.size(), "{} roots, {} names", roots_.size(), root_names_.size());
}

}  // namespace zp
