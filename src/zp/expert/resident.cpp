// Loads all experts into the rank's memory.
#include "zp/expert/resident.h"

#include "zp/base/check.h"
#include "zp/expert/packing.h"

namespace zp {

ResidentExperts::ResidentExperts(const ModelShape& shape, const ExpertReader& reader, Device& device, int32_t threads) {
  const ExpertPacking packing = packing_of(reader, threads);
  const Placement placement(shape, {.ranks = 1, .placing = Placing::kResident, .blob_bytes = packing.blob_bytes});
  store_ = std::make_unique<ExpertStore>(device, MemoryKind::kDevice, placement.experts_on(0), packing);
  layers_.resize(static_cast<size_t>(shape.layers));
  for (const ExpertId id : placement.experts_on(0))
    layers_[static_cast<size_t>(id.layer)].push_back(store_->address(id));
}

std::span<const std::byte* const> ResidentExperts::acquire(int32_t layer, Stream& /*compute*/) {
  const std::vector<const std::byte*>& experts = layers_.at(static_cast<size_t>(layer));
  ZP_CHECK(!experts.empty(), "layer {} has no experts", layer);
  return experts;
}

}  // namespace zp
