// Loads ranks and makes their expert sources.
#include "zp/engine/rank_group.h"

#include <algorithm>

#include "zp/base/host_info.h"
#include "zp/expert/packing.h"
#include "zp/expert/streamed.h"
#include "zp/ops/factory.h"

namespace zp {
namespace {

// Spans of the first few hundred steps: enough to look at, little enough to keep.
constexpr size_t kSpansMax = 100'000;

}  // namespace

RankGroup::RankGroup(const EngineSetup& setup, const ModelFiles& files) : setup_(setup), shape_(files.shape()) {
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
  make_servers();
  if (placement.placing() != Placing::kHybrid || placement.ranks() == 1) return;
  std::vector<Device*> devices;
  std::vector<SpanLog*> spans;
  for (const Loaded& rank : ranks_) {
    devices.push_back(rank.device.get());
    spans.push_back(rank.spans.get());
  }
  host_channel_ = std::make_unique<HostChannel>(*cluster_, std::move(devices), std::move(spans), setup.streaming);
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
