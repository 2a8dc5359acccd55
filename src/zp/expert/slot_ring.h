// The ring of slots that a rank's remote experts arrive in, and what waits for what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "zp/device/device.h"

namespace zp {

struct SlotRingSpec {
  int32_t slots = 2;
  size_t slot_bytes = 0;
  bool poison = false;  ///< fill a slot with 0xFF before it is filled again: for tests, so that reading too early shows
};

/// Slots are filled and used in turns 0, 1, 2, ...: turn t lies in slot t % slots. A turn goes through
///   begin_fetch (streams wait until the turn before in this slot is free) - copies - end_fetch (ready)
///   acquire (compute waits until ready) - operations - release (free).
/// Invariant: released <= acquired <= released + 1 and acquired <= fetched <= released + slots. Calls are made by one
/// thread at a time; none blocks.
class SlotRing final {
 public:
  SlotRing(Device& device, const SlotRingSpec& spec);

  [[nodiscard]] int32_t slots() const noexcept { return spec_.slots; }
  [[nodiscard]] int32_t slot_of(int64_t turn) const noexcept { return static_cast<int32_t>(turn % spec_.slots); }
  [[nodiscard]] std::byte* data(int32_t slot) const { return buffers_.at(static_cast<size_t>(slot)).data(); }
  /// The turn that is fetched next, and the one that is used now or next.
  [[nodiscard]] int64_t fetch_turn() const noexcept { return fetched_; }
  [[nodiscard]] int64_t use_turn() const noexcept { return released_; }
  /// The next turn's slot has been released, so its fetch may be issued.
  [[nodiscard]] bool has_room() const noexcept { return fetched_ < released_ + spec_.slots; }

  /// Everything issued on `streams` from now on waits until the next turn's slot is no longer read.
  void begin_fetch(std::span<Stream* const> streams);
  /// All copies of that turn have been issued on these streams.
  void end_fetch(std::span<Stream* const> streams);
  /// Everything issued on `compute` from now on waits until the turn's experts are there. The turn has been fetched.
  void acquire(Stream& compute);
  /// Everything that reads the turn's experts has been issued on `compute`.
  void release(Stream& compute);

 private:
  struct Slot {
    std::vector<Event> ready;
    std::optional<Event> free;
  };

  SlotRingSpec spec_;
  std::vector<Buffer> buffers_;
  std::vector<Slot> slots_;
  int64_t fetched_ = 0;
  int64_t acquired_ = 0;
  int64_t released_ = 0;
};

}  // namespace zp
