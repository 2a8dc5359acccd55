#include "zp/cache/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace zp {
namespace {

std::vector<BlockId> take(BlockPool& pool, int32_t count, BlockId after = kNoBlock) {
  std::vector<BlockId> blocks(static_cast<size_t>(count));
  pool.allocate(blocks, after);
  pool.check_invariants();
  return blocks;
}

// Runs of consecutive blocks that do not cross a group: what the engine can read as one extent.
int32_t extents(const std::vector<BlockId>& blocks) {
  int32_t count = 0;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (i == 0 || blocks[i] != blocks[i - 1] + 1 || blocks[i] % kGroupBlocks == 0) ++count;
  return count;
}

TEST(BlockPool, GivesALongSequenceWholeGroups) {
  BlockPool pool(64);
  EXPECT_EQ(extents(take(pool, 20)), 3);
  EXPECT_EQ(extents(take(pool, 16)), 2);
}

TEST(BlockPool, PutsAShortSequenceWhereItFitsBest) {
  BlockPool pool(24);
  const std::vector<BlockId> first = take(pool, 6);   // leaves a run of 2
  const std::vector<BlockId> second = take(pool, 2);  // goes there, not into a whole group
  EXPECT_EQ(second.front() / kGroupBlocks, first.front() / kGroupBlocks);
  EXPECT_EQ(extents(take(pool, 16)), 2);
}

TEST(BlockPool, GoesOnBehindTheSequencesLastBlock) {
  BlockPool pool(32);
  std::vector<BlockId> sequence = take(pool, 3);
  const std::vector<BlockId> more = take(pool, 9, sequence.back());
  sequence.insert(sequence.end(), more.begin(), more.end());
  EXPECT_EQ(extents(sequence), 2);
}

TEST(BlockPool, UsesTheLastBlockOfAScatteredPool) {
  BlockPool pool(20);
  const std::vector<BlockId> all = take(pool, 20);
  EXPECT_EQ(std::set<BlockId>(all.begin(), all.end()).size(), 20U);
  for (const BlockId block : all)
    if (block % 2 == 1) pool.free(block);
  const std::vector<BlockId> odd = take(pool, 10);
  EXPECT_EQ(pool.free_count(), 0);
  for (const BlockId block : odd) EXPECT_EQ(block % 2, 1);
}

TEST(BlockPool, OfCapacityZeroIsAlwaysFull) {
  BlockPool pool(0);
  pool.check_invariants();
  EXPECT_EQ(pool.free_count(), 0);
  EXPECT_TRUE(take(pool, 0).empty());
  EXPECT_DEATH(take(pool, 1), "1 blocks wanted, 0 free");
}

TEST(BlockPool, RefusesToFreeTwice) {
  BlockPool pool(8);
  const BlockId block = take(pool, 1).front();
  pool.free(block);
  EXPECT_DEATH(pool.free(block), "free already");
}

TEST(BlockPool, AgreesWithASetUnderRandomOperations) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](int32_t limit) { return static_cast<int32_t>(random() % static_cast<uint32_t>(limit)); };
    const int32_t capacity = below(70);
    BlockPool pool(capacity);
    std::set<BlockId> used;
    for (int operation = 0; operation < 400; ++operation) {
      const int32_t free_count = capacity - static_cast<int32_t>(used.size());
      if (random() % 2 == 0) {
        const int32_t count = below(free_count + 1);
        const BlockId after = used.empty() || random() % 2 == 0 ? kNoBlock : *used.begin();
        for (const BlockId block : take(pool, count, after)) {
          ASSERT_TRUE(block >= 0 && block < capacity);
          ASSERT_TRUE(used.insert(block).second) << "block " << block << " was given out twice";
        }
      } else {
        for (int32_t i = below(static_cast<int32_t>(used.size()) + 1); i > 0; --i) {
          const auto victim = std::next(used.begin(), below(static_cast<int32_t>(used.size())));
          pool.free(*victim);
          used.erase(victim);
        }
        pool.check_invariants();
      }
      ASSERT_EQ(pool.free_count(), capacity - static_cast<int32_t>(used.size()));
      for (BlockId block = 0; block < capacity; ++block) ASSERT_EQ(pool.is_free(block), !used.contains(block));
    }
  }
}

}  // namespace
}  // namespace zp
