#include "zp/cache/block_tree.h"

#include <gtest/gtest.h>

#include <vector>

namespace zp {
namespace {

// All blocks of one parent collide; and all blocks whatsoever do.
BlockHash weak_hash(BlockHash, std::span<const int32_t>) { return {7, 7}; }

// A sequence of blocks, each of one repeated token.
std::vector<int32_t> blocks_of(const std::vector<int32_t>& values) {
  std::vector<int32_t> tokens;
  for (const int32_t value : values) tokens.insert(tokens.end(), kBlockTokens, value);
  return tokens;
}

std::vector<NodeId> acquire(BlockTree& tree, std::string_view name, const std::vector<int32_t>& tokens,
                            BlockHashFunction hash = hash_block) {
  const BlockChain chain(name, tokens, hash);
  std::vector<NodeId> path = tree.acquire({.cache_namespace = name, .tokens = tokens, .chain = &chain});
  tree.check_invariants();
  return path;
}

TEST(BlockTree, EqualPrefixesAreTheSameNodes) {
  BlockTree tree;
  const auto a = acquire(tree, "n", blocks_of({1, 2, 3}));
  const auto b = acquire(tree, "n", blocks_of({1, 2, 4, 3}));
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(a[1], b[1]);
  EXPECT_NE(a[2], b[2]);
  EXPECT_NE(a[2], b[3]);
  EXPECT_EQ(tree.references(a[1]), 2);
  EXPECT_EQ(tree.references(a[2]), 1);
  EXPECT_EQ(tree.parent(a[2]), a[1]);
  EXPECT_TRUE(tree.is_root(tree.parent(a[0])));
}

TEST(BlockTree, ACollisionOfHashesDoesNotMakeBlocksEqual) {
  BlockTree tree;
  const auto a = acquire(tree, "n", blocks_of({1, 1}), weak_hash);
  const auto other_tokens = acquire(tree, "n", blocks_of({1, 2}), weak_hash);
  const auto other_parent = acquire(tree, "n", blocks_of({2, 1}), weak_hash);
  const auto other_namespace = acquire(tree, "m", blocks_of({1, 1}), weak_hash);
  EXPECT_NE(a[0], a[1]);
  EXPECT_EQ(a[0], other_tokens[0]);
  EXPECT_NE(a[1], other_tokens[1]);
  EXPECT_NE(a[1], other_parent[1]);
  EXPECT_NE(a[0], other_namespace[0]);
  EXPECT_EQ(acquire(tree, "n", blocks_of({1, 1}), weak_hash), a);
}

TEST(BlockTree, NodesVanishWithTheirLastUse) {
  BlockTree tree;
  const auto a = acquire(tree, "n", blocks_of({1, 2, 3}));
  const auto b = acquire(tree, "n", blocks_of({1, 5}));
  EXPECT_EQ(tree.size(), 5);  // and the root
  tree.hold(a[1]);
  tree.release(a);
  tree.check_invariants();
  EXPECT_EQ(tree.size(), 4);  // a[2] is gone
  tree.release(b);
  tree.check_invariants();
  EXPECT_EQ(tree.size(), 3);  // the held one, what is before it, the root
  tree.unhold(a[1]);
  tree.check_invariants();
  EXPECT_EQ(tree.size(), 0);
}

TEST(BlockTree, ShortSequencesHaveNoNodes) {
  BlockTree tree;
  EXPECT_TRUE(acquire(tree, "n", {1, 2, 3}).empty());
  EXPECT_EQ(tree.size(), 0);
}

TEST(BlockTree, FindsEverythingAgainAfterGrowing) {
  BlockTree tree;
  std::vector<std::vector<NodeId>> paths;
  for (int32_t i = 0; i < 700; ++i) {
    const std::vector<int32_t> tokens = blocks_of({i, 1, 2});
    const BlockChain chain("n", tokens);
    paths.push_back(tree.acquire({.cache_namespace = "n", .tokens = tokens, .chain = &chain}));
  }
  EXPECT_EQ(tree.size(), 2101);
  for (int32_t i = 0; i < 700; i += 100)
    EXPECT_EQ(acquire(tree, "n", blocks_of({i, 1, 2})), paths[static_cast<size_t>(i)]);
}

}  // namespace
}  // namespace zp
