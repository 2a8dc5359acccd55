// Growing and erasing.
#include "zp/cache/residency_map.h"

#include <algorithm>
#include <utility>

#include "zp/base/check.h"

namespace zp {
namespace {

constexpr size_t kFirstPlaces = 1024;

}  // namespace

void ResidencyMap::insert(NodeId node, int32_t rank, BlockId block) {
  ZP_CHECK(find(node, rank) == kNoBlock, "rank {} has node {} already", rank, node);
  const auto i = static_cast<size_t>(node);
  if (i >= first_.size()) first_.resize(i + 1);
  if (first_[i].rank < 0) {
    first_[i] = {.rank = rank, .block = block};
    ++firsts_;
    return;
  }
  if (4 * (further_ + 1) > 3 * keys_.size()) grow();
  const uint64_t key = key_of(node, rank);
  const size_t place = place_of(key);
  keys_[place] = key;
  blocks_[place] = block;
  ++further_;
}

void ResidencyMap::erase(NodeId node, int32_t rank) {
  const auto i = static_cast<size_t>(node);
  if (i >= first_.size() || first_[i].rank != rank) {
    erase_further(node, rank);
    return;
  }
  first_[i] = {};
  --firsts_;
}

// What follows moves up into the gap unless that would put it before the place where its hash points, so that no search
// ends too early.
void ResidencyMap::erase_further(NodeId node, int32_t rank) {
  ZP_CHECK(!keys_.empty(), "rank {} does not have node {}", rank, node);
  size_t gap = place_of(key_of(node, rank));
  ZP_CHECK(keys_[gap] != kFree, "rank {} does not have node {}", rank, node);
  for (size_t next = (gap + 1) & mask(); keys_[next] != kFree; next = (next + 1) & mask()) {
    const size_t from_home = (next - home_of(keys_[next])) & mask();
    if (from_home < ((next - gap) & mask())) continue;
    keys_[gap] = keys_[next];
    blocks_[gap] = blocks_[next];
    gap = next;
  }
  keys_[gap] = kFree;
  --further_;
}

void ResidencyMap::grow() {
  std::vector<uint64_t> keys(keys_.empty() ? kFirstPlaces : 2 * keys_.size(), kFree);
  std::vector<BlockId> blocks(keys.size(), kNoBlock);
  keys.swap(keys_);
  blocks.swap(blocks_);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == kFree) continue;
    const size_t place = place_of(keys[i]);
    keys_[place] = keys[i];
    blocks_[place] = blocks[i];
  }
}

void ResidencyMap::check_invariants() const {
  size_t used = 0;
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (keys_[i] == kFree) continue;
    ++used;
    ZP_CHECK(place_of(keys_[i]) == i, "the entry in place {} is not found", i);
    const auto node = static_cast<size_t>(keys_[i] >> 32);
    ZP_CHECK(std::cmp_not_equal(first_.at(node).rank, keys_[i] & UINT32_MAX), "node {} is twice on a rank", node);
  }
  ZP_CHECK(used == further_, "{} entries of further ranks, {} counted", used, further_);
  ZP_CHECK(4 * used <= 3 * keys_.size(), "{} of {} places are used", used, keys_.size());
  const auto firsts = std::ranges::count_if(first_, [](const First& first) { return first.rank >= 0; });
  ZP_CHECK(std::cmp_equal(firsts, firsts_), "{} first ranks, {} counted", firsts, firsts_);
}

}  // namespace zp
