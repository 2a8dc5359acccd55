// Random sequences of fetches, uses and delays on a ring: what is read is what was put there for that turn.
#include "zp/expert/slot_ring.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "zp/device/cpu/cpu_device.h"
#include "zp/device/factory.h"

namespace zp {
namespace {

// Two streams fill a half of each slot with the turn's number; compute reads both halves twice.
class RingRun {
 public:
  RingRun(int32_t slots, uint64_t seed)
      : random_(seed),
        device_(make_device({.kind = DeviceKind::kCpu, .threads = 1})),
        ring_(*device_, {.slots = slots, .slot_bytes = 2, .poison = true}),
        first_(device_->create_stream("first")),
        second_(device_->create_stream("second")),
        compute_(device_->create_stream("compute")) {}

  int64_t wrong(int32_t operations) {
    for (int32_t i = 0; i < operations; ++i) {
      const bool can_use = ring_.use_turn() < ring_.fetch_turn();
      if (ring_.has_room() && (!can_use || random_() % 2 == 0))
        fetch();
      else
        use();
    }
    compute_->synchronize();
    return wrong_;
  }

 private:
  void act(Stream& stream, std::function<void()> body) {
    const auto delay = std::chrono::microseconds(random_() % 3 == 0 ? random_() % 300 : 0);
    dynamic_cast<cpu::CpuStream&>(stream).enqueue([body = std::move(body), delay] {
      if (delay.count() > 0) std::this_thread::sleep_for(delay);
      body();
    });
  }
  void fetch() {
    const int64_t turn = ring_.fetch_turn();
    const std::vector<Stream*> streams = {first_.get(), second_.get()};
    ring_.begin_fetch(streams);
    for (size_t half = 0; half < 2; ++half)
      act(*streams[half],
          [data = ring_.data(ring_.slot_of(turn)) + half, turn] { *data = static_cast<std::byte>(turn % 200); });
    ring_.end_fetch(streams);
  }
  void use() {
    const int64_t turn = ring_.use_turn();
    ring_.acquire(*compute_);
    for (int32_t i = 0; i < 2; ++i)
      act(*compute_, [this, data = ring_.data(ring_.slot_of(turn)), turn] {
        const auto expected = static_cast<std::byte>(turn % 200);
        if (data[0] != expected || data[1] != expected) ++wrong_;
      });
    ring_.release(*compute_);
  }

  std::mt19937_64 random_;
  std::unique_ptr<Device> device_;
  SlotRing ring_;
  int64_t wrong_ = 0;
  std::unique_ptr<Stream> first_;
  std::unique_ptr<Stream> second_;
  std::unique_ptr<Stream> compute_;
};

TEST(SlotRing, WhatIsReadIsWhatWasFetchedForThatTurn) {
  for (const int32_t slots : {2, 3, 4})
    for (uint64_t seed = 0; seed < 4; ++seed)
      EXPECT_EQ(RingRun(slots, seed).wrong(400), 0) << slots << " slots, seed " << seed;
}

TEST(SlotRing, HasRoomForAsManyTurnsAsSlots) {
  const auto device = make_device({.kind = DeviceKind::kCpu, .threads = 1});
  SlotRing ring(*device, {.slots = 3, .slot_bytes = 16});
  const auto compute = device->create_stream("compute");
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(ring.has_room());
    ring.begin_fetch({});
    ring.end_fetch({});
  }
  EXPECT_FALSE(ring.has_room());
  ring.acquire(*compute);
  EXPECT_FALSE(ring.has_room()) << "its experts are being read";
  ring.release(*compute);
  EXPECT_TRUE(ring.has_room());
  EXPECT_EQ(ring.fetch_turn(), 3);
  EXPECT_EQ(ring.slot_of(3), 0);
}

}  // namespace
}  // namespace zp
