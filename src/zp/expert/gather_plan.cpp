// Plans pulls.
#include "zp/expert/gather_plan.h"

#include <algorithm>

#include "zp/base/check.h"

namespace zp {
namespace {

// One slice of each queue in turn, until all are empty.
std::vector<Pull> round_robin(const std::vector<std::vector<Pull>>& queues) {
  std::vector<Pull> merged;
  size_t longest = 0;
  for (const auto& queue : queues) longest = std::max(longest, queue.size());
  for (size_t i = 0; i < longest; ++i)
    for (const auto& queue : queues)
      if (i < queue.size()) merged.push_back(queue[i]);
  return merged;
}

}  // namespace

GatherPlan plan_gather(const Placement& placement, int32_t layer, int32_t rank, const GatherSizes& sizes) {
  ZP_CHECK(sizes.blob_bytes > 0 && sizes.slice_bytes > 0, "blobs of {} bytes in slices of {}", sizes.blob_bytes,
           sizes.slice_bytes);
  const int32_t ranks = placement.ranks();
  GatherPlan plan;
  std::vector<std::vector<Pull>> resident(static_cast<size_t>(ranks));
  std::vector<std::vector<Pull>> from_host(static_cast<size_t>(ranks));
  for (int32_t e = 0; e < placement.experts(); ++e) {
    const ExpertId id{layer, e};
    if (placement.on_rank(id, rank)) continue;
    const size_t slot_offset = plan.places.size() * sizes.blob_bytes;
    plan.places.push_back({e, slot_offset});
    const int32_t home = placement.home(id);
    const int32_t owner = home == Placement::kHost ? placement.streamer(id) : home;
    // Counted from the rank's right-hand neighbour on; the rank itself comes last.
    const auto turn = static_cast<size_t>((owner - rank - 1 + 2 * ranks) % ranks);
    std::vector<Pull>& queue = (home == Placement::kHost ? from_host : resident)[turn];
    for (size_t offset = 0; offset < sizes.blob_bytes; offset += sizes.slice_bytes)
      queue.push_back({.expert = e,
                       .source = home,
                       .offset = offset,
                       .slot_offset = slot_offset + offset,
                       .size_bytes = std::min(sizes.slice_bytes, sizes.blob_bytes - offset)});
  }
  plan.resident = round_robin(resident);
  plan.from_host = round_robin(from_host);
  return plan;
}

}  // namespace zp
