// The experts that a rank of a synchronous group holds: some of each layer's, or a slice of each, always resident.
#pragma once

#include <cstdint>
#include <vector>

#include "zp/device/device.h"
#include "zp/model/expert_source.h"
#include "zp/model/load_lanes.h"
#include "zp/model/weights.h"
#include "zp/shape/model_shard.h"

namespace zp {

/// Pointers of experts that other ranks hold are null. acquire() never waits.
class ShardedExperts final : public ExpertSource {
 public:
  struct Parts {
    const ModelShape& shape;  ///< of the rank: shape_of(model, shard)
    const ModelShard& shard;
    const ExpertReader& reader;  ///< made with the same shard
    Device& device;
    LoadLanes* lanes = nullptr;  ///< set: they read, and the device packs
  };
  /// Reads and packs the shard's experts. Blocks; throws what the reader throws.
  explicit ShardedExperts(const Parts& parts);

  [[nodiscard]] std::string_view description() const noexcept override { return "sharded"; }
  [[nodiscard]] std::span<const std::byte* const> acquire(int32_t layer, Stream& compute) override;
  void release(int32_t /*layer*/, Stream& /*compute*/) override {}
  [[nodiscard]] std::vector<LayerWait> take_waits() override { return {}; }
  void set_busy(bool /*busy*/) override {}
  void abandon(const std::exception_ptr& /*failure*/) override {}

 private:
  struct Target {
    int32_t layer;
    int32_t expert;
    std::byte* blob;
  };
  // Allocates all of the shard.
  [[nodiscard]] std::vector<Target> make_room(const Parts& parts);

  struct Layer {
    Buffer blobs;
    std::vector<const std::byte*> experts;  // [E], null or into blobs; empty for a dense layer
  };
  std::vector<Layer> layers_;
};

}  // namespace zp
