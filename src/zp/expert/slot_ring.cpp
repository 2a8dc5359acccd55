// Orders fetches and uses of slots by events.
#include "zp/expert/slot_ring.h"

#include "zp/base/check.h"

namespace zp {

SlotRing::SlotRing(Device& device, const SlotRingSpec& spec) : spec_(spec), slots_(static_cast<size_t>(spec.slots)) {
  ZP_CHECK(spec.slots >= 2, "a ring of {} slots cannot fetch one layer while another computes", spec.slots);
  for (int32_t i = 0; i < spec.slots; ++i) buffers_.push_back(device.allocate(spec.slot_bytes));
}

void SlotRing::begin_fetch(std::span<Stream* const> streams) {
  ZP_CHECK(has_room(), "turn {} is fetched while turn {} is in use", fetched_, released_);
  const int32_t index = slot_of(fetched_);
  Slot& slot = slots_[static_cast<size_t>(index)];
  for (Stream* stream : streams)
    if (slot.free) stream->wait(*slot.free);
  slot.ready.clear();
  if (!spec_.poison) return;
  streams.front()->fill(data(index), std::byte{0xFF}, spec_.slot_bytes);
  const Event filled = streams.front()->record();
  for (Stream* stream : streams.subspan(1)) stream->wait(filled);
}

void SlotRing::end_fetch(std::span<Stream* const> streams) {
  Slot& slot = slots_[static_cast<size_t>(slot_of(fetched_))];
  for (Stream* stream : streams) slot.ready.push_back(stream->record());
  ++fetched_;
}

void SlotRing::acquire(Stream& compute) {
  ZP_CHECK(acquired_ == released_ && acquired_ < fetched_, "turn {} is acquired; {} fetched, {} released", acquired_,
           fetched_, released_);
  for (const Event& ready : slots_[static_cast<size_t>(slot_of(acquired_))].ready) compute.wait(ready);
  ++acquired_;
}

void SlotRing::release(Stream& compute) {
  ZP_CHECK(acquired_ == released_ + 1, "turn {} is released before it is acquired", released_);
  slots_[static_cast<size_t>(slot_of(released_))].free = compute.record();
  ++released_;
}

}  // namespace zp
