#include "zp/cache/prefix_index.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace zp {
namespace {

/// An index and the few things that a step does to it, for one rank unless said otherwise.
class PrefixIndexTest : public testing::Test {
 protected:
  using Path = std::vector<NodeId>;

  static std::vector<int32_t> tokens_of(const std::vector<int32_t>& values) {
    std::vector<int32_t> tokens;
    for (const int32_t value : values) tokens.insert(tokens.end(), kBlockTokens, value);
    return tokens;
  }

  Path acquire(const std::vector<int32_t>& values) {
    const std::vector<int32_t> tokens = tokens_of(values);
    const BlockChain chain("n", tokens);
    return index_.acquire({.cache_namespace = "n", .tokens = tokens, .chain = &chain});
  }

  /// Reads what is there of a sequence and makes the rest.
  Path start(const std::vector<int32_t>& values, int32_t rank = 0, bool wanted = false) {
    const Path path = acquire(values);
    const auto resident = static_cast<size_t>(index_.pin(rank, path));
    static_cast<void>(index_.promise(rank, std::span(path).subspan(resident), wanted));
    made_[path] = path.size() - resident;
    index_.check_invariants();
    return path;
  }

  void finish(const Path& path, int32_t rank = 0) {
    for (size_t i = path.size() - made_[path]; i < path.size(); ++i) index_.commit(rank, path[i]);
    index_.unpin(rank, path);
    index_.check_invariants();
  }

  Path run(const std::vector<int32_t>& values, int32_t rank = 0) {
    Path path = start(values, rank);
    finish(path, rank);
    return path;
  }

  /// Which blocks of the path are resident, as digits: "110".
  std::string resident(const Path& path, int32_t rank = 0) const {
    std::string out;
    for (const NodeId node : path) out += index_.resident(node, rank) ? '1' : '0';
    return out;
  }

  PrefixIndex index_{std::vector<int32_t>{4, 8}};
  std::map<Path, size_t> made_;
};

TEST_F(PrefixIndexTest, ABlockIsPendingFromPromiseToCommit) {
  const Path path = start({1, 2});
  EXPECT_EQ(index_.residency(path[1], 0), Residency::kPending);
  EXPECT_EQ(index_.residency(path[1], 1), Residency::kAbsent);
  EXPECT_EQ(index_.pending_count(0), 2);
  finish(path);
  EXPECT_EQ(index_.residency(path[1], 0), Residency::kCommitted);
  EXPECT_EQ(index_.pending_count(0), 0);
}

TEST_F(PrefixIndexTest, MatchesTheLongestPrefixOfEachRank) {
  run({1, 2}, 0);
  start({1, 2, 3}, 1);
  std::vector<int32_t> lengths(2);
  index_.match(acquire({1, 2, 3, 4}), lengths);
  EXPECT_EQ(lengths, (std::vector<int32_t>{2, 3}));
  index_.match(acquire({1, 9}), lengths);
  EXPECT_EQ(lengths, (std::vector<int32_t>{1, 1}));
  index_.match(acquire({9, 1}), lengths);
  EXPECT_EQ(lengths, (std::vector<int32_t>{0, 0}));
  index_.match({}, lengths);
  EXPECT_EQ(lengths, (std::vector<int32_t>{0, 0}));
}

TEST(LongestMatch, IsFoundFromAnyHint) {
  constexpr int32_t kBlocks = 40;
  PrefixIndex index(std::vector<int32_t>{kBlocks, kBlocks, 0});
  std::vector<int32_t> tokens(kBlocks * kBlockTokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  const BlockChain chain("n", tokens);
  const std::vector<NodeId> path = index.acquire({.cache_namespace = "n", .tokens = tokens, .chain = &chain});
  RankSet ranks(3);
  ranks.add(0);
  ranks.add(2);
  static_cast<void>(index.promise(1, path, false));  // of no interest to ranks 0 and 2
  for (int32_t has = 0; has <= kBlocks; ++has) {
    const PathMatch expected{.blocks = has,
                             .last = has > 0 ? path[static_cast<size_t>(has - 1)] : kNoNode,
                             .next = has < kBlocks ? path[static_cast<size_t>(has)] : kNoNode};
    for (int32_t hint = -2; hint < kBlocks + 3; ++hint) {
      const PathMatch match = index.longest_match(path, ranks, hint);
      EXPECT_EQ(match.blocks, has) << "from " << hint;
      EXPECT_EQ(match.last, expected.last);
      EXPECT_EQ(match.next, expected.next);
    }
    if (has < kBlocks) static_cast<void>(index.promise(0, std::span(path).subspan(static_cast<size_t>(has), 1), false));
  }
  EXPECT_EQ(index.longest_match({}, ranks, 3).blocks, 0);
}

TEST_F(PrefixIndexTest, EvictsTheLeastRecentlyUsedSequenceFromItsEnd) {
  const Path old_path = run({1, 2});
  const Path new_path = run({3, 4});
  run({5});
  EXPECT_EQ(resident(old_path), "10");
  run({6});
  EXPECT_EQ(resident(old_path), "00");
  EXPECT_EQ(resident(new_path), "11");
  EXPECT_EQ(index_.evictions(0), 2);
}

TEST_F(PrefixIndexTest, NeverEvictsABlockBeforeItsResidentChild) {
  const Path path = run({1, 2, 3, 4});
  run({5});
  EXPECT_EQ(resident(path), "1110");
  run({6});
  EXPECT_EQ(resident(path), "1100");
  run({7});
  EXPECT_EQ(resident(path), "1000");
}

TEST_F(PrefixIndexTest, NeverEvictsAPinnedBlock) {
  const Path pinned = start({1, 2, 3});
  run({4});
  const Path other = run({5});
  EXPECT_EQ(resident(pinned), "111");
  EXPECT_EQ(resident(other), "1");
  EXPECT_EQ(index_.room(0).one_off, 1);
  EXPECT_EQ(index_.room(0).one_off_pinned, 3);
  EXPECT_DEATH(start({6, 7}), "no block to evict");
}

TEST_F(PrefixIndexTest, OneOffBlocksGoBeforeReusedOnesHoweverNew) {
  run({1, 2});
  const Path hot = run({1, 2});  // read once more
  run({3});
  run({4});
  for (int32_t value = 5; value < 30; ++value) run({value});
  EXPECT_EQ(resident(hot), "11");
  EXPECT_TRUE(index_.reused(hot[1], 0));
}

TEST_F(PrefixIndexTest, AReusedBlockLeavesWhenNothingElseCan) {
  run({1, 2});
  const Path hot = run({1, 2});
  const Path path = run({3, 4, 5});
  EXPECT_EQ(resident(hot), "10");
  EXPECT_EQ(resident(path), "111");
}

TEST_F(PrefixIndexTest, WantedBlocksCountAsReusedAtOnce) {
  const Path wanted = start({1, 2}, 0, true);
  finish(wanted);
  for (int32_t value = 5; value < 9; ++value) run({value});
  EXPECT_EQ(resident(wanted), "11");
}

TEST_F(PrefixIndexTest, AWithdrawnBlockGivesItsPlaceBack) {
  const Path path = start({1, 2});
  index_.unpin(0, path);
  index_.withdraw(0, path[1]);
  index_.withdraw(0, path[0]);
  index_.check_invariants();
  EXPECT_EQ(resident(path), "00");
  EXPECT_EQ(index_.room(0).free, 4);
}

TEST_F(PrefixIndexTest, WhatIsReliedOnCannotBeWithdrawn) {
  const Path path = start({1});
  EXPECT_DEATH(index_.withdraw(0, path[0]), "relied on");
}

TEST_F(PrefixIndexTest, RanksEvictIndependently) {
  run({1, 2, 3, 4}, 0);
  const Path path = run({1, 2, 3, 4}, 1);
  run({5, 6, 7, 8}, 0);
  EXPECT_EQ(resident(path, 0), "0000");
  EXPECT_EQ(resident(path, 1), "1111");
}

TEST_F(PrefixIndexTest, ForgetsNodesThatNeitherRequestsNorRanksHave) {
  const Path path = run({1, 2, 3, 4});
  index_.release(path);
  EXPECT_EQ(index_.tree().size(), 5);
  const Path next = run({5, 6, 7, 8});
  index_.release(next);
  EXPECT_EQ(index_.tree().size(), 5);
}

}  // namespace
}  // namespace zp
