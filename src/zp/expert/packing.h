// How a checkpoint's experts get into stores.
#pragma once

#include <cstdint>

#include "zp/expert/expert_store.h"
#include "zp/model/weights.h"

namespace zp {

/// What `reader` refers to outlives the loading of stores.
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

}  // namespace zp
