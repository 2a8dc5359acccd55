// The pointers and copies of every layer and slot, made once, so that a step only looks them up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zp/device/device.h"
#include "zp/expert/cluster.h"
#include "zp/expert/gather_plan.h"
#include "zp/expert/slot_ring.h"

namespace zp {

/// Immutable.
class SlotTables final {
 public:
  SlotTables(const ExpertCluster& cluster, int32_t rank, const SlotRing& ring, size_t slice_bytes);

  [[nodiscard]] bool is_streamed(int32_t layer) const { return find(layer).cycle_index >= 0; }
  /// [E] where the layer's experts are when its remote ones lie in `slot`; any slot will do for other layers.
  [[nodiscard]] std::span<const std::byte* const> experts(int32_t layer, int32_t slot) const;
  /// Copies that fill `slot`: from shards of peers, and from host memory.
  [[nodiscard]] std::span<const CopyRange> resident_copies(int32_t layer, int32_t slot) const;
  [[nodiscard]] std::span<const CopyRange> host_copies(int32_t layer, int32_t slot) const;
  /// Any layer copies from shards of peers; from host memory.
  [[nodiscard]] bool has_resident_copies() const noexcept { return has_resident_copies_; }
  [[nodiscard]] bool has_host_copies() const noexcept { return has_host_copies_; }

  /// The layer of a turn: streamed layers in order, again and again.
  [[nodiscard]] int32_t layer_of(int64_t turn) const { return cycle_[static_cast<size_t>(turn) % cycle_.size()]; }
  [[nodiscard]] int64_t cycle_length() const noexcept { return static_cast<int64_t>(cycle_.size()); }
  [[nodiscard]] const GatherPlan& plan(int32_t layer) const;

 private:
  struct Slot {
    std::vector<const std::byte*> experts;  // [E]
    std::vector<CopyRange> resident_copies;
    std::vector<CopyRange> host_copies;
  };
  struct Layer {
    int32_t cycle_index = -1;  // -1: not streamed
    GatherPlan plan;
    std::vector<Slot> slots;  // one, for a layer that is not streamed; none, for a dense one
  };
  [[nodiscard]] const Layer& find(int32_t layer) const { return layers_.at(static_cast<size_t>(layer)); }
  [[nodiscard]] const Slot& find(int32_t layer, int32_t slot) const;

  std::vector<Layer> layers_;
  std::vector<int32_t> cycle_;
  bool has_resident_copies_ = false;
  bool has_host_copies_ = false;
};

}  // namespace zp
