// Loads ranks and makes their expert sources.
#include "zp/engine/rank_group.h"

#include <algorithm>

#include "zp/base/clock.h"
#include "zp/engine/weight_bytes.h"
#include "zp/expert/packing.h"
#include "zp/expert/streamed.h"
#include "zp/ops/factory.h"

namespace zp {
namespace {

// Spans of the first few hundred steps: enough to look at, little enough to keep.
constexpr size_t kSpansMax = 100'000;

}  // namespace

RankGroup::RankGroup(const EngineSetup& setup, const WeightSource& source) : setup_(setup), shape_(source.shape()) {
  for (const RankSpec& spec : setup.ranks) {
    Loaded& loaded = ranks_.emplace_back();
    loaded.device = make_device(spec.device);
    loaded.ops = make_ops(*loaded.device, spec.ops);
    if (setup.trace) loaded.spans = std::make_unique<SpanLog>(kSpansMax);
  }
  connect();
  load(source);
  make_servers();
  const Placement& placement = setup.placement;
  if (placement.placing() != Placing::kHybrid || placement.ranks() == 1) return;
  std::vector<Device*> devices;
  std::vector<SpanLog*> spans;
  for (const Loaded& rank : ranks_) {
    devices.push_back(rank.device.get());
    spans.push_back(rank.spans.get());
  }
  host_channel_ = std::make_unique<HostChannel>(*cluster_, std::move(devices), std::move(spans), setup.streaming);
}

// Ranks that pull experts from one another reach each other's memory, both ways.
void RankGroup::connect() {
  const Placing placing = setup_.placement.placing();
  if (placing != Placing::kGathered && placing != Placing::kHybrid) return;
  for (const Loaded& rank : ranks_)
    for (const Loaded& peer : ranks_)
      if (&rank != &peer) rank.device->reach_memory_of(*peer.device);
}

// Ranks load one after another, so each may use all threads.
void RankGroup::load(const WeightSource& source) {
  const SteadyClock clock;
  const int64_t begin_ns = clock.now_ns();
  const Placement& placement = setup_.placement;
  const std::vector<ExpertId> on_host = placement.experts_on_host();
  std::vector<std::shared_ptr<const ExpertPeer>> shards;
  std::shared_ptr<const ExpertPeer> host;
  size_t blob_bytes = 0;
  for (int32_t r = 0; r < size(); ++r) {
    Loaded& loaded = rank(r);
    DevicePacking* packs = source.stored() != nullptr ? loaded.ops->device_packing() : nullptr;
    const std::unique_ptr<LoadLanes> lanes =
        packs != nullptr ? std::make_unique<LoadLanes>(*loaded.device, *packs, setup_.load_lanes) : nullptr;
    loaded.weights = load_weights(source, *loaded.device, *loaded.ops, lanes.get());
    const RankSpec& spec = setup_.ranks[static_cast<size_t>(r)];
    weight_bytes_ += replicated_weight_bytes(shape_, *loaded.device, spec.ops);
    const ExpertReader reader(source, *loaded.ops);
    const ExpertPacking packing = lanes ? packing_of(reader, *lanes) : packing_of(reader, setup_.load_threads);
    blob_bytes = packing.blob_bytes;
    const auto place = [&](MemoryKind memory, std::span<const ExpertId> experts) {
      auto store = std::make_shared<ExpertStore>(*loaded.device, memory, experts, packing);
      weight_bytes_ += store->size_bytes();
      return store;
    };
    shards.push_back(place(MemoryKind::kDevice, placement.experts_on(r)));
    if (r + 1 == size() && !on_host.empty()) host = place(MemoryKind::kPinnedHost, on_host);
  }
  cluster_ =
      std::make_unique<ExpertCluster>(ExpertCluster::Parts{placement, blob_bytes, std::move(shards), std::move(host)});
  load_seconds_ = static_cast<double>(clock.now_ns() - begin_ns) * 1e-9;
}

// One a rank, if activations are sent.
void RankGroup::make_servers() {
  if (setup_.step_modes.send_tokens == 0) return;
  for (int32_t r = 0; r < size(); ++r) {
    Loaded& loaded = rank(r);
    const OpsSpec& ops = setup_.ranks[static_cast<size_t>(r)].ops;
    loaded.server_ops = make_ops(*loaded.device, server_ops_spec(ops, setup_.step_modes));
    servers_.push_back(std::make_unique<ExpertServer>(
        ExpertServer::Parts{*cluster_, *loaded.device, *loaded.server_ops, loaded.spans.get()},
        server_spec(shape_, setup_.step_modes, r)));
  }
}

std::unique_ptr<StepExperts> RankGroup::make_experts(int32_t rank) {
  Loaded& loaded = this->rank(rank);
  const RankSpec& spec = setup_.ranks.at(static_cast<size_t>(rank));
  SpanLog* spans = loaded.spans.get();
  StepExperts::Parts parts{.ops = *loaded.ops,
                           .shape = shape_,
                           .placement = setup_.placement,
                           .cost = {.rank = rank,
                                    .slots = setup_.streaming.slots,
                                    .blob_bytes = cluster_->blob_bytes(),
                                    .slice_bytes = setup_.streaming.slice_bytes,
                                    .activation_bytes = size_of(loaded.ops->activation_dtype()),
                                    .job_rows = std::max<int64_t>(1, setup_.step_modes.job_rows)},
                           .chunk_tokens = spec.limits.chunk_tokens,
                           .source = nullptr,
                           .sender = nullptr,
                           .fixed = setup_.step_modes.fixed};
  if (host_channel_ != nullptr) {
    auto hybrid =
        std::make_unique<HybridExperts>(*cluster_, *host_channel_, rank, *loaded.device, setup_.streaming, spans);
    parts.hybrid = hybrid.get();
    parts.source = std::move(hybrid);
    return std::make_unique<StepExperts>(std::move(parts));
  }
  auto streamed = std::make_unique<StreamedExperts>(*cluster_, rank, *loaded.device, setup_.streaming, spans);
  parts.streamed = streamed.get();
  parts.source = std::move(streamed);
  if (!servers_.empty()) {
    std::vector<ExpertServer*> servers;
    for (const auto& server : servers_) servers.push_back(server.get());
    parts.server = servers[static_cast<size_t>(rank)];
    parts.sender = std::make_unique<ActivationSender>(
        ActivationSender::Parts{*cluster_, *loaded.device, *loaded.ops, std::move(servers), spans},
        sender_spec(shape_, setup_.step_modes, rank));
  }
  return std::make_unique<StepExperts>(std::move(parts));
}

int64_t RankGroup::dropped_spans() const {
  int64_t dropped = 0;
  for (const Loaded& rank : ranks_)
    if (rank.spans != nullptr) dropped += rank.spans->dropped();
  return dropped;
}

std::vector<std::vector<Span>> RankGroup::spans() const {
  std::vector<std::vector<Span>> spans;
  for (const Loaded& rank : ranks_)
    if (rank.spans != nullptr) spans.push_back(rank.spans->finished());
  return spans;
}

}  // namespace zp
