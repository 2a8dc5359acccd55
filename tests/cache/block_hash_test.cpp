#include "zp/cache/block_hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace zp {
namespace {

std::vector<int32_t> counting(int32_t count, int32_t first = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(BlockChain, CoversWholeBlocksOnly) {
  EXPECT_EQ(BlockChain("n", counting(0)).size(), 0);
  EXPECT_EQ(BlockChain("n", counting(15)).size(), 0);
  EXPECT_EQ(BlockChain("n", counting(16)).size(), 1);
  EXPECT_EQ(BlockChain("n", counting(31)).size(), 1);
  EXPECT_EQ(BlockChain("n", counting(32)).size(), 2);
}

TEST(BlockChain, SharesExactlyTheCommonPrefix) {
  std::vector<int32_t> a = counting(64);
  std::vector<int32_t> b = a;
  b[40] += 1;
  const BlockChain x("n", a);
  const BlockChain y("n", b);
  EXPECT_EQ(x.hashes()[0], y.hashes()[0]);
  EXPECT_EQ(x.hashes()[1], y.hashes()[1]);
  EXPECT_NE(x.hashes()[2], y.hashes()[2]);
  EXPECT_NE(x.hashes()[3], y.hashes()[3]);  // the same tokens after another prefix are another block
}

TEST(BlockChain, DependsOnTheNamespace) {
  EXPECT_NE(BlockChain("n", counting(16)).hashes()[0], BlockChain("m", counting(16)).hashes()[0]);
}

TEST(BlockHash, DependsOnEveryTokenAndItsPlace) {
  std::set<std::pair<uint64_t, uint64_t>> seen;
  const auto note = [&](const std::vector<int32_t>& tokens) {
    const BlockHash hash = hash_block({1, 2}, tokens);
    seen.insert({hash.lo, hash.hi});
  };
  note(counting(16));
  for (size_t i = 0; i < 16; ++i) {
    std::vector<int32_t> tokens = counting(16);
    tokens[i] = -1;
    note(tokens);
  }
  for (size_t i = 1; i < 16; ++i) {
    std::vector<int32_t> tokens = counting(16);
    std::swap(tokens[0], tokens[i]);
    note(tokens);
  }
  EXPECT_EQ(seen.size(), 1 + 16 + 15);
}

TEST(CacheNamespace, DistinctPartsGiveDistinctNames) {
  std::set<std::string> names;
  const std::vector<std::string_view> parts = {"", "a", "ab", "b", "1:a", ":", "0:"};
  for (const auto revision : parts)
    for (const auto adapter : parts)
      for (const auto salt : parts)
        names.insert(to_string(CacheNamespace{.model_revision = revision, .adapter = adapter, .cache_salt = salt}));
  EXPECT_EQ(names.size(), parts.size() * parts.size() * parts.size());
}

}  // namespace
}  // namespace zp
