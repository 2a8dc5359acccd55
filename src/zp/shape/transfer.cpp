// Counts experts and divides bytes by rates.
#include "zp/shape/transfer.h"

#include <algorithm>

#include "zp/base/check.h"
#include "zp/base/math.h"

namespace zp {

std::string_view to_string(ExpertSpreading spreading) noexcept {
  switch (spreading) {
    case ExpertSpreading::kResident: return "resident";
    case ExpertSpreading::kGathered: return "gathered";
    case ExpertSpreading::kHost: return "host";
    case ExpertSpreading::kHybrid: return "hybrid";
  }
  return "unknown";
}

int32_t ExpertSpread::streamed_layers() const noexcept {
  return static_cast<int32_t>(std::ranges::count_if(remote, [](int32_t count) { return count > 0; }));
}

ExpertSpread spread_experts(const ModelShape& shape, const SpreadSpec& spec) {
  ZP_CHECK(spec.ranks >= 1 && spec.expert_bytes > 0, "{} ranks, experts of {} bytes", spec.ranks, spec.expert_bytes);
  const int64_t experts = shape.experts;
  const int64_t moe = shape.moe_layers();
  ExpertSpread spread{.ranks = spec.ranks,
                      .experts = shape.experts,
                      .expert_bytes = spec.expert_bytes,
                      .rank_experts = experts * moe,
                      .remote = std::vector<int32_t>(static_cast<size_t>(shape.layers), 0),
                      .host_by_layer = std::vector<int32_t>(static_cast<size_t>(shape.layers), 0)};
  // The first MoE layer, which every rank holds, may be the only one.
  if (moe <= 1 || static_cast<uint64_t>(experts * moe * spec.expert_bytes) <= spec.resident_bytes) return spread;
  const auto rank_room = static_cast<int64_t>(spec.rank_bytes / static_cast<uint64_t>(spec.expert_bytes));
  ZP_CHECK(rank_room >= experts, "a rank has room for {} experts, fewer than the {} of one layer", rank_room, experts);

  const int64_t streamed = moe - 1;
  const int64_t all = experts * streamed;
  const int64_t resident = std::min(all, (rank_room - experts) * spec.ranks);
  spread.host_experts = all - resident;
  spread.rank_experts = experts + ceil_div<int64_t>(resident, spec.ranks);
  int64_t index = -1;  // among the streamed layers
  for (size_t l = 0; l < spread.remote.size(); ++l) {
    if (shape.feed_forward[l] != FeedForward::kMoe) continue;
    if (index >= 0) {
      // Differences of rounded multiples: each layer keeps the same number, give or take one.
      const int64_t kept = resident * (index + 1) / streamed - resident * index / streamed;
      spread.host_by_layer[l] = static_cast<int32_t>(experts - kept);
      spread.remote[l] = static_cast<int32_t>(spec.ranks == 1 ? experts - kept : experts - kept / spec.ranks);
    }
    ++index;
  }
  if (spread.host_experts > 0)
    spread.spreading = spec.ranks == 1 ? ExpertSpreading::kHost : ExpertSpreading::kHybrid;
  else if (spec.ranks > 1)
    spread.spreading = ExpertSpreading::kGathered;
  return spread;
}

LayerTransfer layer_transfer(const ExpertSpread& spread, const LinkRates& links, int32_t window) {
  ZP_CHECK(window >= 1, "a window of {} layers", window);
  LayerTransfer transfer;
  const auto bytes = static_cast<double>(spread.expert_bytes);
  const auto ranks = static_cast<double>(spread.ranks);
  const size_t layers = spread.remote.size();
  if (spread.streamed_layers() == 0) return transfer;
  if (spread.ranks > 1) {
    ZP_CHECK(links.peer > 0, "experts are gathered from ranks without a link");
    // A rank has its part of every layer, in memory or in its window, and pulls the others'.
    transfer.peer_seconds = static_cast<double>(spread.experts) * (ranks - 1) / ranks * bytes / links.peer;
  }
  if (spread.host_experts == 0) return transfer;
  ZP_CHECK(links.host > 0, "experts are streamed without a link to the host");
  const size_t length = std::min(static_cast<size_t>(window), layers);
  for (size_t first = 0; first < layers; ++first) {
    int64_t experts = 0;
    for (size_t i = 0; i < length; ++i) experts += spread.host_by_layer[(first + i) % layers];
    const double mean = static_cast<double>(experts) / ranks / static_cast<double>(length);
    transfer.host_seconds = std::max(transfer.host_seconds, mean * bytes / links.host);
  }
  return transfer;
}

}  // namespace zp
