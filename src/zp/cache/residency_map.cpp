// Growing and erasing.
#include "zp/cache/residency_map.h"

#include "zp/base/check.h"

namespace zp {
namespace {

constexpr size_t kFirstPlaces = 1024;

}  // namespace

void ResidencyMap::insert(NodeId node, int32_t rank, BlockId block) {
  if (4 * (size_ + 1) > 3 * keys_.size()) grow();
  const uint64_t key = key_of(node, rank);
  const size_t place = place_of(key);
  ZP_CHECK(keys_[place] == kFree, "rank {} has node {} already", rank, node);
  keys_[place] = key;
  blocks_[place] = block;
  ++size_;
}

// What follows moves up into the gap unless that would put it before the place where its hash points, so that no search
// ends too early.
void ResidencyMap::erase(NodeId node, int32_t rank) {
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
  --size_;
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
  }
  ZP_CHECK(used == size_, "{} entries, {} counted", used, size_);
  ZP_CHECK(4 * used <= 3 * keys_.size(), "{} of {} places are used", used, keys_.size());
}

}  // namespace zp
