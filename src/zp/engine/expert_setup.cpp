// Places experts within a rank's memory.
#include "zp/engine/expert_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "zp/base/math.h"
#include "zp/expert/streamed.h"

namespace zp {
namespace {

constexpr int32_t kSlotsMax = 64;
constexpr int32_t kWindowMax = 64;
constexpr int64_t kLatencyUsMax = 10'000'000;

Placing placing_of(ExpertMode mode) {
  switch (mode) {
    case ExpertMode::kAuto: return Placing::kAuto;
    case ExpertMode::kResident: return Placing::kResident;
    case ExpertMode::kGathered: return Placing::kGathered;
    case ExpertMode::kHost: return Placing::kHost;
    case ExpertMode::kHybrid: return Placing::kHybrid;
  }
  return Placing::kAuto;
}

// What slots and window take beside the experts that a rank keeps, when as little as possible is kept.
uint64_t moving_bytes(const EngineConfig& config, const ModelShape& shape, size_t blob_bytes) {
  const auto layer = static_cast<uint64_t>(shape.experts) * blob_bytes;
  const auto share = ceil_div<uint64_t>(static_cast<uint64_t>(shape.experts), static_cast<uint64_t>(config.ranks));
  const uint64_t window = config.ranks > 1 ? static_cast<uint64_t>(config.experts.window) * share * blob_bytes : 0;
  return static_cast<uint64_t>(config.experts.slots) * layer + window;
}

// What a rank keeps when nobody said how much: everything, if it has room for that; else what slots and window leave,
// but never less than the first layer of experts. If that does not fit, the plan as a whole says so.
uint64_t kept_bytes(const EngineConfig& config, const ModelShape& shape, const ExpertRoom& room) {
  if (config.experts.rank_bytes) return *config.experts.rank_bytes;
  const auto all = static_cast<uint64_t>(shape.experts) * static_cast<uint64_t>(shape.moe_layers()) * room.blob_bytes;
  if (all <= room.rank_bytes) return all;
  const uint64_t moving = moving_bytes(config, shape, room.blob_bytes);
  const auto first = static_cast<uint64_t>(shape.experts) * room.blob_bytes;
  return std::max(first, room.rank_bytes > moving ? room.rank_bytes - moving : 0);
}

}  // namespace

Placement place_experts(const EngineConfig& config, const ModelShape& shape, const ExpertRoom& room) {
  return Placement(shape, {.ranks = config.ranks,
                           .placing = placing_of(config.experts.mode),
                           .blob_bytes = room.blob_bytes,
                           .rank_bytes = kept_bytes(config, shape, room)});
}

std::vector<MemoryItem> expert_memory(const EngineConfig& config, const Placement& placement, size_t blob_bytes) {
  uint64_t kept = 0;
  uint64_t slots = 0;
  uint64_t window = 0;
  for (int32_t rank = 0; rank < placement.ranks(); ++rank) {
    kept = std::max<uint64_t>(kept, placement.experts_on(rank).size() * blob_bytes);
    slots = std::max(slots, StreamedExperts::slot_bytes(placement, rank, blob_bytes, config.experts.slots));
    window = std::max(window, static_cast<uint64_t>(placement.share_max(rank)) * blob_bytes *
                                  static_cast<uint64_t>(config.experts.window));
  }
  std::vector<MemoryItem> items = {{"experts", kept}};
  if (!placement.streamed_layers().empty()) items.push_back({"slots for experts", slots});
  if (placement.placing() == Placing::kHybrid && placement.ranks() > 1) items.push_back({"window for experts", window});
  return items;
}

uint64_t host_expert_bytes(const Placement& placement, size_t blob_bytes) {
  return placement.experts_on_host().size() * blob_bytes;
}

void validate_experts(const EngineConfig& config, std::vector<std::string>& problems) {
  const auto in_range = [&](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
      problems.push_back(fmt::format("{} is {}; it must lie in [{}, {}]", name, value, low, high));
  };
  in_range("experts.slots", config.experts.slots, 2, kSlotsMax);
  in_range("experts.window", config.experts.window, 1, kWindowMax);
  in_range("experts.slice_bytes", static_cast<int64_t>(std::min<uint64_t>(config.experts.slice_bytes, INT64_MAX)), 256,
           int64_t{1} << 40);
  in_range("experts.peer_link.latency_us", config.experts.peer_link.latency_us, 0, kLatencyUsMax);
  in_range("experts.host_link.latency_us", config.experts.host_link.latency_us, 0, kLatencyUsMax);
  const auto limited = [](const LinkConfig& link) { return link.bytes_per_second > 0 || link.latency_us > 0; };
  if (config.device != "cpu" && (limited(config.experts.peer_link) || limited(config.experts.host_link)))
    problems.push_back(fmt::format("link bandwidths and latencies are for virtual ranks on the CPU; the device is '{}'",
                                   config.device));
}

}  // namespace zp
