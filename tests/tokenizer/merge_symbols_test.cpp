// Do both algorithms merge in the order that the definition of byte-pair encoding says?
#include "zp/tokenizer/merge_symbols.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace zp::tokenizer {
namespace {

// The definition: the pair of the lowest rank, the leftmost of equals, until none is left.
std::vector<int32_t> merge_by_definition(const MergeTable& merges, std::vector<int32_t> symbols) {
  while (true) {
    Merge best;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Merge merge = merges.find(symbols[i], symbols[i + 1]);
      if (merge.rank < best.rank) best = merge, at = i;
    }
    if (best.rank == Merge::kNever) return symbols;
    symbols[at] = best.id;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// Merges of a small alphabet in which every result has its own id, as in a vocabulary. Ids start above what the
// table keeps apart, or below, so that both of its halves are used.
MergeTable random_merges(std::mt19937& random, int32_t first_id, std::size_t count) {
  MergeTable merges(count);
  int32_t next_id = first_id + 4;
  for (uint32_t rank = 0; rank < count; ++rank) {
    const auto pick = [&] {
      return first_id + static_cast<int32_t>(random() % static_cast<uint32_t>(next_id - first_id));
    };
    const int32_t left = pick();
    const int32_t right = pick();
    if (merges.find(left, right).rank == Merge::kNever) merges.set(left, right, {rank, next_id++});
  }
  return merges;
}

TEST(MergeSymbols, FollowsTheDefinitionForShortAndLongWords) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const int32_t first_id = seed % 2 == 0 ? 0 : 300;
    const MergeTable merges = random_merges(random, first_id, 10 + random() % 60);
    for (const std::size_t size : {0, 1, 2, 3, 63, 64, 65, 66, 200, 700}) {
      std::vector<int32_t> symbols = {7, 7};  // what lies before must stay
      for (std::size_t i = 0; i < size; ++i) symbols.push_back(first_id + static_cast<int32_t>(random() % 4));
      std::vector<int32_t> expected = merge_by_definition(merges, {symbols.begin() + 2, symbols.end()});
      expected.insert(expected.begin(), {7, 7});
      merge_symbols(merges, symbols, 2);
      EXPECT_EQ(symbols, expected) << "seed " << seed << ", size " << size;
    }
  }
}

TEST(MergeTable, KeepsTheLaterMergeOfAPair) {
  for (const int32_t id : {5, 5000}) {
    MergeTable merges(2);
    EXPECT_EQ(merges.find(id, id).rank, Merge::kNever);
    merges.set(id, id, {1, 10});
    merges.set(id, id, {2, 20});
    EXPECT_EQ(merges.find(id, id).rank, 2);
    EXPECT_EQ(merges.find(id, id).id, 20);
    EXPECT_EQ(merges.find(id, id + 1).id, -1);
  }
}

}  // namespace
}  // namespace zp::tokenizer
