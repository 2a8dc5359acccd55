// The index against a naive model: a map from whole prefixes to what each rank has of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "zp/cache/prefix_index.h"

namespace zp {
namespace {

// Everything collides with everything.
BlockHash weak_hash(BlockHash, std::span<const int32_t>) { return {}; }

using Prefix = std::pair<std::string, std::vector<int32_t>>;  // namespace, tokens up to the end of the block

struct NaiveBlock {
  BlockId block = kNoBlock;
  int pins = 0;
  bool pending = true;
  bool reused = false;
  int64_t released = 0;  // when its pins last came to zero
};

/// What one rank has, found by comparing tokens.
struct NaiveRank {
  int32_t capacity = 0;
  std::map<Prefix, NaiveBlock> blocks;
  int64_t evictions = 0;

  static bool is_child(const Prefix& child, const Prefix& parent) {
    return child.first == parent.first && child.second.size() == parent.second.size() + kBlockTokens &&
           std::equal(parent.second.begin(), parent.second.end(), child.second.begin());
  }
  [[nodiscard]] bool is_leaf(const Prefix& prefix) const {
    return std::ranges::none_of(blocks, [&](const auto& other) { return is_child(other.first, prefix); });
  }
  [[nodiscard]] int32_t unpinned() const {
    return static_cast<int32_t>(std::ranges::count_if(blocks, [](const auto& b) { return b.second.pins == 0; }));
  }
  [[nodiscard]] int32_t room() const { return capacity - static_cast<int32_t>(blocks.size()) + unpinned(); }

  // One-off leaves before reused ones, the least recently released first.
  void evict() {
    const std::pair<const Prefix, NaiveBlock>* victim = nullptr;
    const auto key = [](const NaiveBlock& b) { return std::make_tuple(b.reused, b.released); };
    for (const auto& entry : blocks) {
      if (entry.second.pins > 0 || !is_leaf(entry.first)) continue;
      if (victim == nullptr || key(entry.second) < key(victim->second)) victim = &entry;
    }
    ASSERT_NE(victim, nullptr);
    blocks.erase(Prefix(victim->first));
    ++evictions;
  }
};

/// A step's use of one sequence.
struct Use {
  int32_t rank = 0;
  std::vector<Prefix> prefixes = {};
  std::vector<NodeId> path = {};
  size_t pinned = 0;
  size_t made = 0;
};

class RandomRun {
 public:
  RandomRun(uint32_t seed, BlockHashFunction hash) : random_(seed), hash_(hash), capacities_(pick_capacities()) {
    index_.emplace(capacities_);
    for (const int32_t capacity : capacities_) naive_.push_back({.capacity = capacity, .blocks = {}});
  }

  void step() {
    if (uses_.size() < 6 && below(3) != 0) {
      start();
    } else if (!uses_.empty()) {
      finish(below(static_cast<int32_t>(uses_.size())));
    }
    compare();
  }

  void drain() {
    while (!uses_.empty()) finish(0);
    compare();
  }

 private:
  int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit)); }

  std::vector<int32_t> pick_capacities() {
    // Now and then more ranks than one word of a mask has bits.
    std::vector<int32_t> capacities(static_cast<size_t>(below(6) == 0 ? 63 + below(4) : 1 + below(3)));
    for (int32_t& capacity : capacities) capacity = below(24);
    return capacities;
  }

  Use make_use() {
    Use use{.rank = below(static_cast<int32_t>(naive_.size()))};
    const std::string name = below(4) == 0 ? "m" : "n";
    std::vector<int32_t> tokens;
    for (int32_t blocks = 1 + below(6); blocks > 0; --blocks) {
      tokens.insert(tokens.end(), kBlockTokens, below(2));
      use.prefixes.emplace_back(name, tokens);
    }
    const BlockChain chain(name, tokens, hash_);
    use.path = index_->acquire({.cache_namespace = name, .tokens = tokens, .chain = &chain});
    return use;
  }

  void start() {
    Use use = make_use();
    NaiveRank& rank = naive_[static_cast<size_t>(use.rank)];
    while (use.pinned < use.prefixes.size() && rank.blocks.contains(use.prefixes[use.pinned])) {
      NaiveBlock& block = rank.blocks[use.prefixes[use.pinned++]];
      ++block.pins;
      block.reused = true;
    }
    std::vector<int32_t> lengths(naive_.size());
    index_->match(use.path, lengths);
    ASSERT_EQ(lengths[static_cast<size_t>(use.rank)], static_cast<int32_t>(use.pinned));
    ASSERT_EQ(index_->pin(use.rank, use.path), static_cast<int32_t>(use.pinned));

    const auto rest = static_cast<int32_t>(use.prefixes.size() - use.pinned);
    use.made = static_cast<size_t>(std::min(below(rest + 1), rank.room()));
    const bool wanted = below(4) == 0;
    const auto nodes = std::span(use.path).subspan(use.pinned, use.made);
    const std::vector<BlockId> ids = index_->promise(use.rank, nodes, wanted);
    while (rank.capacity - static_cast<int32_t>(rank.blocks.size()) < static_cast<int32_t>(use.made)) rank.evict();
    for (size_t i = 0; i < use.made; ++i)
      rank.blocks[use.prefixes[use.pinned + i]] = {.block = ids[i], .pins = 1, .reused = wanted};
    use.pinned += use.made;
    index_->release(use.path);  // Residency keeps alive what is pinned.
    uses_.push_back(std::move(use));
  }

  void finish(int32_t which) {
    Use use = std::move(uses_[static_cast<size_t>(which)]);
    uses_.erase(uses_.begin() + which);
    NaiveRank& rank = naive_[static_cast<size_t>(use.rank)];
    const auto pinned = std::span(use.path).first(use.pinned);
    const auto made = pinned.last(use.made);
    const size_t first = use.pinned - use.made;
    const auto own = std::span(use.prefixes).subspan(first, use.made);
    const bool relied_on = std::ranges::any_of(own, [&](const Prefix& p) {
      const bool has_other_child = std::ranges::any_of(rank.blocks, [&](const auto& other) {
        return NaiveRank::is_child(other.first, p) && std::ranges::find(own, other.first) == own.end();
      });
      return rank.blocks.at(p).pins > 1 || has_other_child;
    });
    const bool fails = !relied_on && below(3) == 0;
    if (!fails)
      for (const NodeId node : made) index_->commit(use.rank, node);
    index_->unpin(use.rank, pinned);
    for (size_t i = use.pinned; i-- > 0;) {
      NaiveBlock& block = rank.blocks.at(use.prefixes[i]);
      if (i >= first && !fails) block.pending = false;
      if (--block.pins == 0) block.released = ++time_;
      if (i >= first && fails) {
        index_->withdraw(use.rank, use.path[i]);
        rank.blocks.erase(use.prefixes[i]);
      }
    }
  }

  /// A sequence that waits, and its match when it was last looked at.
  struct Watched {
    Use use{};
    PathMatch match{};
  };

  // Matches that were kept for a while, with some ranks, against the naive ranks'.
  void compare_matches() {
    while (watched_.size() < 4) {
      watched_.push_back({.use = make_use()});
      watched_.back().match = index_->longest_match(watched_.back().use.path, RankSet(index_->ranks()));
      ASSERT_EQ(watched_.back().match.blocks, 0) << "on no ranks";
    }
    RankSet some(index_->ranks());
    std::vector<const NaiveRank*> naive;
    for (int32_t rank = 0; rank < index_->ranks(); ++rank) {
      if (below(2) == 0) continue;
      some.add(rank);
      naive.push_back(&naive_[static_cast<size_t>(rank)]);
    }
    for (auto& [use, match] : watched_) {
      int32_t longest = 0;
      for (const NaiveRank* rank : naive) {
        int32_t length = 0;
        while (std::cmp_less(length, use.prefixes.size()) &&
               rank->blocks.contains(use.prefixes[static_cast<size_t>(length)]))
          ++length;
        longest = std::max(longest, length);
      }
      ASSERT_EQ(index_->holds(match, some), match.blocks == longest);
      const int32_t hint = below(2) == 0 ? match.blocks : below(9) - 1;
      match = index_->longest_match(use.path, some, hint);
      ASSERT_EQ(match.blocks, longest) << "from " << hint;
    }
    if (below(3) != 0) return;
    const auto leaving = watched_.begin() + below(static_cast<int32_t>(watched_.size()));
    index_->release(leaving->use.path);
    watched_.erase(leaving);
  }

  void compare() {
    index_->check_invariants();
    compare_matches();
    Use probe = make_use();
    for (size_t r = 0; r < naive_.size(); ++r) {
      const auto rank = static_cast<int32_t>(r);
      ASSERT_EQ(index_->evictions(rank), naive_[r].evictions);
      const RoomCounts room = index_->room(rank);
      ASSERT_EQ(room.free + room.one_off + room.reused, naive_[r].room());
      for (size_t i = 0; i < probe.path.size(); ++i) {
        const auto found = naive_[r].blocks.find(probe.prefixes[i]);
        if (found == naive_[r].blocks.end()) {
          ASSERT_EQ(index_->residency(probe.path[i], rank), Residency::kAbsent);
          continue;
        }
        ASSERT_EQ(index_->residency(probe.path[i], rank),
                  found->second.pending ? Residency::kPending : Residency::kCommitted);
        ASSERT_EQ(index_->block(probe.path[i], rank), found->second.block);
        ASSERT_EQ(index_->reused(probe.path[i], rank), found->second.reused);
      }
    }
    index_->release(probe.path);
  }

  std::mt19937 random_;
  BlockHashFunction hash_;
  std::vector<int32_t> capacities_;
  std::optional<PrefixIndex> index_;
  std::vector<NaiveRank> naive_;
  std::vector<Use> uses_;
  std::vector<Watched> watched_;
  int64_t time_ = 0;
};

void run_seeds(BlockHashFunction hash) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomRun run(seed, hash);
    for (int i = 0; i < 200; ++i) {
      run.step();
      if (testing::Test::HasFatalFailure()) return;
    }
    run.drain();
  }
}

TEST(PrefixIndexRandom, AgreesWithAMapOfPrefixes) { run_seeds(hash_block); }

TEST(PrefixIndexRandom, AgreesWithAMapOfPrefixesWhenHashesCollide) { run_seeds(weak_hash); }

}  // namespace
}  // namespace zp
