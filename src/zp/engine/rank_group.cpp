// Loads ranks and makes their expert sources.
#include "zp/engine/rank_group.h"

#include "zp/base/host_info.h"
#include "zp/expert/packing.h"
#include "zp/expert/streamed.h"
#include "zp/ops/factory.h"

namespace zp {
namespace {

// Spans of the first few hundred steps: enough to look at, little enough to keep.
constexpr size_t kSpansMax = 100'000;

}  // namespace

RankGroup::RankGroup(const EngineSetup& setup, const ModelFiles& files) : streaming_(setup.streaming) {
  const Placement& placement = setup.placement;
  std::vector<std::shared_ptr<const ExpertPeer>> shards;
  std::shared_ptr<const ExpertPeer> host;
  ExpertPacking packing;
  for (size_t r = 0; r < setup.ranks.size(); ++r) {
    const RankSpec& spec = setup.ranks[r];
    Loaded& loaded = ranks_.emplace_back();
    loaded.device = make_device(spec.device);
    loaded.ops = make_ops(*loaded.device, spec.ops);
    loaded.weights = load_weights(files, *loaded.device, *loaded.ops);
    if (setup.trace) loaded.spans = std::make_unique<SpanLog>(kSpansMax);
    // Ranks load one after another, so each may use all threads.
    packing = packing_of(ExpertReader(files, *loaded.ops), setup.load_threads);
    shards.push_back(std::make_shared<ExpertStore>(*loaded.device, MemoryKind::kDevice,
                                                   placement.experts_on(static_cast<int32_t>(r)), packing));
  }
  if (const std::vector<ExpertId> on_host = placement.experts_on_host(); !on_host.empty())
    host = std::make_shared<ExpertStore>(*ranks_.back().device, MemoryKind::kPinnedHost, on_host, packing);
  cluster_ = std::make_unique<ExpertCluster>(
      ExpertCluster::Parts{placement, packing.blob_bytes, std::move(shards), std::move(host)});
  if (placement.placing() != Placing::kHybrid || placement.ranks() == 1) return;
  std::vector<Device*> devices;
  std::vector<SpanLog*> spans;
  for (const Loaded& rank : ranks_) {
    devices.push_back(rank.device.get());
    spans.push_back(rank.spans.get());
  }
  host_channel_ = std::make_unique<HostChannel>(*cluster_, std::move(devices), std::move(spans), streaming_);
}

std::unique_ptr<ExpertSource> RankGroup::make_experts(int32_t rank) {
  Loaded& loaded = this->rank(rank);
  if (host_channel_ != nullptr)
    return std::make_unique<HybridExperts>(*cluster_, *host_channel_, rank, *loaded.device, streaming_,
                                           loaded.spans.get());
  return std::make_unique<StreamedExperts>(*cluster_, rank, *loaded.device, streaming_, loaded.spans.get());
}

std::vector<std::vector<Span>> RankGroup::spans() const {
  std::vector<std::vector<Span>> spans;
  for (const Loaded& rank : ranks_)
    if (rank.spans != nullptr) spans.push_back(rank.spans->finished());
  return spans;
}

}  // namespace zp
