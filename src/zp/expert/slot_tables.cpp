// Resolves plans to addresses.
#include "zp/expert/slot_tables.h"

#include "zp/base/check.h"

namespace zp {
namespace {

std::vector<CopyRange> resolve(const std::vector<Pull>& pulls, const ExpertCluster& cluster, ExpertId id, int32_t rank,
                               std::byte* slot) {
  std::vector<CopyRange> copies;
  copies.reserve(pulls.size());
  for (const Pull& pull : pulls) {
    id.expert = pull.expert;
    copies.push_back({slot + pull.slot_offset, cluster.address(id, rank) + pull.offset, pull.size_bytes});
  }
  return copies;
}

}  // namespace

SlotTables::SlotTables(const ExpertCluster& cluster, int32_t rank, const SlotRing& ring, size_t slice_bytes) {
  const Placement& placement = cluster.placement();
  const auto streamed = placement.streamed_layers();
  cycle_.assign(streamed.begin(), streamed.end());
  layers_.resize(static_cast<size_t>(placement.layers()));
  for (size_t i = 0; i < cycle_.size(); ++i)
    layers_[static_cast<size_t>(cycle_[i])].cycle_index = static_cast<int32_t>(i);
  for (int32_t l = 0; l < placement.layers(); ++l) {
    if (!placement.is_moe(l)) continue;
    Layer& layer = layers_[static_cast<size_t>(l)];
    layer.plan = plan_gather(placement, l, rank, {cluster.blob_bytes(), slice_bytes});
    for (int32_t s = 0; s < (layer.cycle_index >= 0 ? ring.slots() : 1); ++s) {
      Slot& slot = layer.slots.emplace_back();
      slot.experts.resize(static_cast<size_t>(placement.experts()));
      for (int32_t e = 0; e < placement.experts(); ++e)
        if (placement.on_rank({l, e}, rank)) slot.experts[static_cast<size_t>(e)] = cluster.address({l, e}, rank);
      if (layer.plan.places.empty()) continue;
      std::byte* data = ring.data(s);
      for (const GatherPlan::Place& place : layer.plan.places)
        slot.experts[static_cast<size_t>(place.expert)] = data + place.slot_offset;
      slot.resident_copies = resolve(layer.plan.resident, cluster, {l, 0}, rank, data);
      slot.host_copies = resolve(layer.plan.from_host, cluster, {l, 0}, rank, data);
      has_resident_copies_ |= !slot.resident_copies.empty();
      has_host_copies_ |= !slot.host_copies.empty();
    }
  }
}

const SlotTables::Slot& SlotTables::find(int32_t layer, int32_t slot) const {
  const Layer& found = find(layer);
  ZP_CHECK(!found.slots.empty(), "layer {} has no experts", layer);
  return found.slots.at(found.cycle_index >= 0 ? static_cast<size_t>(slot) : 0);
}

std::span<const std::byte* const> SlotTables::experts(int32_t layer, int32_t slot) const {
  return find(layer, slot).experts;
}
std::span<const CopyRange> SlotTables::resident_copies(int32_t layer, int32_t slot) const {
  return find(layer, slot).resident_copies;
}
std::span<const CopyRange> SlotTables::host_copies(int32_t layer, int32_t slot) const {
  return find(layer, slot).host_copies;
}
const GatherPlan& SlotTables::plan(int32_t layer) const { return find(layer).plan; }

}  // namespace zp
