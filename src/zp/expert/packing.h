// How a checkpoint's experts get into stores.
#pragma once

#include <cstdint>

#include "zp/expert/expert_store.h"
#include "zp/model/load_lanes.h"
#include "zp/model/weights.h"

namespace zp {

/// Packs on the host. What `reader` refers to outlives the loading of stores.
[[nodiscard]] inline ExpertPacking packing_of(const ExpertReader& reader, int32_t threads) {
  ExpertPacking packing{
      .blob_bytes = reader.blob_bytes(),
      .read = [reader](ExpertId id, std::span<std::byte> blob) { reader.read(id.layer, id.expert, blob); },
      .threads = threads};
  if (reader.draws())
    packing.draw = [reader](ExpertId id, Stream& stream, std::byte* blob) {
      reader.draw(id.layer, id.expert, stream, blob);
    };
  return packing;
}

/// Packs on the device of `lanes`, which outlive the loading too. Experts for the host's memory are packed beside it
/// and copied there, while others come in.
[[nodiscard]] inline ExpertPacking packing_of(const ExpertReader& reader, LoadLanes& lanes) {
  ExpertPacking packing = packing_of(reader, 1);
  packing.fill = [reader, &lanes](std::span<const ExpertId> experts, MemoryKind memory, const BlobOf& blob_of) {
    lanes.run(std::ssize(experts), [&](int64_t i, LoadLanes::Lane& lane) {
      const auto index = static_cast<size_t>(i);
      const ExpertId id = experts[index];
      std::byte* target = blob_of(index);
      const bool to_host = memory == MemoryKind::kPinnedHost;
      reader.bring(id.layer, id.expert, lane, lanes.packing(), to_host ? lane.blob() : target);
      if (to_host) lane.stream().copy(target, lane.blob(), reader.blob_bytes());
    });
  };
  return packing;
}

}  // namespace zp
