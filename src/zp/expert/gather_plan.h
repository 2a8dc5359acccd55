// How a rank brings the experts of one layer into a slot: which bytes from where, in which order. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zp/expert/placement.h"

namespace zp {

/// A slice of one expert's blob, and where it goes.
struct Pull {
  int32_t expert = 0;
  int32_t source = 0;      ///< a rank, or Placement::kHost
  size_t offset = 0;       ///< in the blob
  size_t slot_offset = 0;  ///< in the slot
  size_t size_bytes = 0;
};

/// What a slot holds of a layer, and the pulls that fill it.
struct GatherPlan {
  struct Place {
    int32_t expert = 0;
    size_t slot_offset = 0;
  };
  std::vector<Place> places;    ///< of the experts that the rank does not have, by number
  std::vector<Pull> resident;   ///< from shards of peers
  std::vector<Pull> from_host;  ///< of experts in host memory
};

struct GatherSizes {
  size_t blob_bytes = 0;
  size_t slice_bytes = 0;  ///< the most that one copy moves
};

/// Pulls go round over the peers, a slice each, beginning with the one after `rank`: so the ranks, which begin
/// together, do not all read from one. Experts of the host go round over their streamers likewise.
[[nodiscard]] GatherPlan plan_gather(const Placement& placement, int32_t layer, int32_t rank, const GatherSizes& sizes);

}  // namespace zp
