// A hash table that finds nodes, and the tree that says what they are.
#include "zp/cache/block_tree.h"

#include <algorithm>

#include "zp/base/check.h"

namespace zp {
namespace {

constexpr size_t kFirstBuckets = 1024;

}  // namespace

BlockTree::BlockTree() : buckets_(kFirstBuckets, kNoNode) {}

std::vector<NodeId> BlockTree::acquire(const SequenceBlocks& sequence) {
  const std::span<const BlockHash> hashes = sequence.chain->hashes();
  ZP_CHECK(hashes.size() == sequence.tokens.size() / kBlockTokens, "{} hashes for {} tokens", hashes.size(),
           sequence.tokens.size());
  std::vector<NodeId> path;
  if (hashes.empty()) return path;
  path.reserve(hashes.size());
  NodeId parent = root(sequence.cache_namespace);
  for (size_t i = 0; i < hashes.size(); ++i) {
    parent = find_or_make(parent, hashes[i], sequence.tokens.subspan(i * kBlockTokens, kBlockTokens));
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

void BlockTree::hold(NodeId node) { ++nodes_[static_cast<size_t>(node)].holds; }

void BlockTree::unhold(NodeId node) {
  Node& n = nodes_[static_cast<size_t>(node)];
  ZP_CHECK(n.live && n.holds > 0, "node {} is not held", node);
  --n.holds;
  prune(node);
}

NodeId BlockTree::root(std::string_view cache_namespace) {
  std::string name(cache_namespace);
  if (const auto found = roots_.find(name); found != roots_.end()) return found->second;
  const NodeId node = make(kNoNode, {});
  root_names_.emplace(node, name);
  roots_.emplace(std::move(name), node);
  return node;
}

NodeId BlockTree::find_or_make(NodeId parent, BlockHash hash, std::span<const int32_t> tokens) {
  for (NodeId id = buckets_[bucket_of(hash)]; id != kNoNode; id = nodes_[static_cast<size_t>(id)].next_in_bucket) {
    const Node& node = nodes_[static_cast<size_t>(id)];
    // The hash only shortens the search. Parent and tokens decide: another tenant's or another text's block is never
    // served, whatever the hashes are.
    if (node.hash == hash && node.parent == parent && std::ranges::equal(node.tokens, tokens)) return id;
  }
  const NodeId id = make(parent, hash);
  Node& node = nodes_[static_cast<size_t>(id)];
  std::ranges::copy(tokens, node.tokens.begin());
  if (static_cast<size_t>(live_) > buckets_.size()) grow_buckets();
  NodeId& head = buckets_[bucket_of(hash)];
  node.next_in_bucket = head;
  head = id;
  ++nodes_[static_cast<size_t>(parent)].children;
  return id;
}

// A live node in no bucket.
NodeId BlockTree::make(NodeId parent, BlockHash hash) {
  if (unused_.empty()) {
    unused_.push_back(id_limit());
    nodes_.emplace_back();
  }
  const NodeId id = unused_.back();
  unused_.pop_back();
  nodes_[static_cast<size_t>(id)] = Node{.hash = hash, .parent = parent, .live = true};
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
      unlink(node);
      --nodes_[static_cast<size_t>(parent)].children;
    }
    n.live = false;
    unused_.push_back(node);
    --live_;
    node = parent;
  }
}

void BlockTree::unlink(NodeId node) {
  const Node& n = nodes_[static_cast<size_t>(node)];
  NodeId* link = &buckets_[bucket_of(n.hash)];
  while (*link != node) link = &nodes_[static_cast<size_t>(*link)].next_in_bucket;
  *link = n.next_in_bucket;
}

void BlockTree::grow_buckets() {
  std::vector<NodeId> old(buckets_.size() * 2, kNoNode);
  old.swap(buckets_);
  for (const NodeId head : old) {
    for (NodeId id = head; id != kNoNode;) {
      Node& node = nodes_[static_cast<size_t>(id)];
      const NodeId next = node.next_in_bucket;
      NodeId& bucket = buckets_[bucket_of(node.hash)];
      node.next_in_bucket = bucket;
      bucket = id;
      id = next;
    }
  }
}

size_t BlockTree::bucket_of(BlockHash hash) const noexcept { return hash.lo & (buckets_.size() - 1); }

void BlockTree::check_invariants() const {
  std::vector<int32_t> children(nodes_.size(), 0);
  int32_t live = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!node.live) continue;
    ++live;
    ZP_CHECK(node.references > 0 || node.holds > 0 || node.children > 0, "nobody needs node {}", i);
    if (node.parent == kNoNode) continue;
    ZP_CHECK(nodes_[static_cast<size_t>(node.parent)].live, "the parent of node {} is gone", i);
    ++children[static_cast<size_t>(node.parent)];
  }
  ZP_CHECK(live == live_, "{} nodes are live, {} counted", live, live_);
  for (size_t i = 0; i < nodes_.size(); ++i)
    ZP_CHECK(!nodes_[i].live || nodes_[i].children == children[i], "node {} has {} children, {} counted", i,
             children[i], nodes_[i].children);

  size_t in_buckets = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (NodeId id = buckets_[bucket]; id != kNoNode; id = nodes_[static_cast<size_t>(id)].next_in_bucket) {
      const Node& node = nodes_[static_cast<size_t>(id)];
      ZP_CHECK(node.live && bucket_of(node.hash) == bucket, "node {} is in the wrong bucket", id);
      ++in_buckets;
      for (NodeId other = node.next_in_bucket; other != kNoNode;
           other = nodes_[static_cast<size_t>(other)].next_in_bucket) {
        const Node& o = nodes_[static_cast<size_t>(other)];
        ZP_CHECK(o.parent != node.parent || o.tokens != node.tokens, "nodes {} and {} are one block", id, other);
      }
    }
  }
  ZP_CHECK(in_buckets + roots_.size() == static_cast<size_t>(live_), "{} nodes found by hash, {} roots, {} live",
           in_buckets, roots_.size(), live_);
  ZP_CHECK(roots_.size() == root_names_.size(), "{} roots, {} names", roots_.size(), root_names_.size());
}

}  // namespace zp
