// The table against std::map, under random insertions and erasures.
#include "zp/cache/residency_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace zp {
namespace {

TEST(ResidencyMap, OfNothingFindsNothing) {
  const ResidencyMap map;
  EXPECT_EQ(map.find(0, 0), kNoBlock);
  map.check_invariants();
}

TEST(ResidencyMap, KeepsRanksOfANodeApart) {
  ResidencyMap map;
  for (int32_t rank = 0; rank < 1024; ++rank) map.insert(7, rank, rank * 2);
  for (int32_t rank = 0; rank < 1024; ++rank) EXPECT_EQ(map.find(7, rank), rank * 2);
  EXPECT_EQ(map.find(8, 3), kNoBlock);
  map.check_invariants();
}

// Each of these is a bug of the caller, and is named rather than served: the empty table too, which has no place to
// look at, and an entry that was there and has gone, among others that still are.
TEST(ResidencyMapDeathTest, RefusesToEraseWhatIsNotThereAndToInsertWhatIs) {
  ResidencyMap map;
  EXPECT_DEATH(map.erase(7, 3), "rank 3 does not have node 7");
  for (int32_t rank = 0; rank < 100; ++rank) map.insert(7, rank, rank);
  EXPECT_DEATH(map.insert(7, 3, 1), "rank 3 has node 7 already");
  map.erase(7, 3);
  EXPECT_DEATH(map.erase(7, 3), "rank 3 does not have node 7");
  EXPECT_EQ(map.size(), 99U);
}

TEST(ResidencyMap, FindsWhatANaiveMapFinds) {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](uint32_t limit) { return static_cast<int32_t>(random() % limit); };
    ResidencyMap map;
    std::map<std::pair<NodeId, int32_t>, BlockId> naive;
    for (int step = 0; step < 30'000; ++step) {
      const std::pair<NodeId, int32_t> key{below(300), below(step % 7 == 0 ? 1024 : 4)};
      const auto found = naive.find(key);
      ASSERT_EQ(map.find(key.first, key.second), found == naive.end() ? kNoBlock : found->second);
      if (found != naive.end()) {
        map.erase(key.first, key.second);
        naive.erase(found);
      } else {
        map.insert(key.first, key.second, step);
        naive.emplace(key, step);
      }
      if (step % 1000 == 0) map.check_invariants();
    }
    ASSERT_EQ(map.size(), naive.size());
    for (const auto& [key, block] : naive) ASSERT_EQ(map.find(key.first, key.second), block);
  }
}

}  // namespace
}  // namespace zp
