// Growing and erasing.
#include "zp/cache/node_table.h"

#include "zp/base/check.h"

namespace zp {
namespace {

constexpr size_t kFirstPlaces = 1024;

}  // namespace

NodeTable::NodeTable() : places_(kFirstPlaces) {}

size_t NodeTable::free_place(uint32_t tag) const noexcept {
  size_t place = home_of(tag);
  while (places_[place].node != kNoNode) place = after(place);
  return place;
}

void NodeTable::insert(uint32_t tag, NodeId node) {
  if (2 * (size_ + 1) > places_.size()) grow();
  places_[free_place(tag)] = {.tag = tag, .node = node};
  ++size_;
}

// What follows moves up into the gap unless that would put it before the place where its tag points, so that no search
// ends too early.
void NodeTable::erase(uint32_t tag, NodeId node) {
  size_t gap = home_of(tag);
  while (places_[gap].node != node) {
    ZP_CHECK(places_[gap].node != kNoNode, "node {} is not filed under {}", node, tag);
    gap = after(gap);
  }
  for (size_t next = after(gap); places_[next].node != kNoNode; next = after(next)) {
    const size_t from_home = (next - home_of(places_[next].tag)) & mask();
    if (from_home < ((next - gap) & mask())) continue;
    places_[gap] = places_[next];
    gap = next;
  }
  places_[gap] = {};
  --size_;
}

void NodeTable::grow() {
  std::vector<Place> old(2 * places_.size());
  old.swap(places_);
  for (const Place& place : old)
    if (place.node != kNoNode) places_[free_place(place.tag)] = place;
}

void NodeTable::check_invariants() const {
  size_t used = 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].node == kNoNode) continue;
    ++used;
    for (size_t before = home_of(places_[i].tag); before != i; before = after(before))
      ZP_CHECK(places_[before].node != kNoNode && places_[before].node != places_[i].node, "node {} is not found",
               places_[i].node);
  }
  ZP_CHECK(used == size_, "{} entries, {} counted", used, size_);
  ZP_CHECK(2 * used <= places_.size(), "{} of {} places are used", used, places_.size());
}

}  // namespace zp
