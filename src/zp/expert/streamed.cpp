// Issues the pulls of one rank.
#include "zp/expert/streamed.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "zp/base/check.h"

namespace zp {
namespace {

size_t remote_bytes(const Placement& placement, int32_t rank, size_t blob_bytes) {
  return static_cast<size_t>(placement.remote_max(rank)) * blob_bytes;
}

}  // namespace

StreamedExperts::StreamedExperts(const ExpertCluster& cluster, int32_t rank, Device& device, const StreamingSpec& spec,
                                 SpanLog* spans)
    : spans_(spans),
      ring_(device, {.slots = spec.slots,
                     .slot_bytes = remote_bytes(cluster.placement(), rank, cluster.blob_bytes()),
                     .poison = spec.poison}),
      tables_(cluster, rank, ring_, spec.slice_bytes),
      is_routed_(static_cast<size_t>(cluster.placement().experts())),
      routed_copies_(static_cast<size_t>(spec.slots)) {
  if (tables_.has_resident_copies())
    streams_.push_back((peer_stream_ = device.create_stream("gather", StreamUse::kPeerLink)).get());
  if (tables_.has_host_copies())
    streams_.push_back((host_stream_ = device.create_stream("host", StreamUse::kHostLink)).get());
  if (tables_.cycle_length() == 0) return;
  while (ring_.has_room()) fetch();
}

std::string_view StreamedExperts::description() const noexcept {
  if (host_stream_ == nullptr) return peer_stream_ == nullptr ? "resident" : "gathered";
  return peer_stream_ == nullptr ? "host" : "gathered and host";
}

uint64_t StreamedExperts::slot_bytes(const Placement& placement, int32_t rank, size_t blob_bytes, int32_t slots) {
  return static_cast<uint64_t>(slots) * remote_bytes(placement, rank, blob_bytes);
}

void StreamedExperts::begin_step(Fetch fetch) {
  when_ = fetch;
  if (fetch == Fetch::kRouted || tables_.cycle_length() == 0) return;
  while (ring_.has_room()) this->fetch();
}

std::span<const std::byte* const> StreamedExperts::acquire(int32_t layer, Stream& compute) {
  if (!tables_.is_streamed(layer)) return tables_.experts(layer, 0);
  return use_turn(layer, compute, compute.record(EventTiming::kTimed));
}

std::span<const std::byte* const> StreamedExperts::acquire_routed(int32_t layer, Stream& compute,
                                                                  const ConstTensorView& ids) {
  if (!tables_.is_streamed(layer)) return tables_.experts(layer, 0);
  Event before = compute.record(EventTiming::kTimed);
  if (ring_.fetch_turn() == ring_.use_turn()) fetch_routed(layer, compute, ids);
  return use_turn(layer, compute, std::move(before));
}

// Makes compute wait for the turn that is used next. What it waited for began at `before`.
std::span<const std::byte* const> StreamedExperts::use_turn(int32_t layer, Stream& compute, Event before) {
  const int64_t turn = ring_.use_turn();
  ZP_CHECK(tables_.layer_of(turn) == layer, "layer {} is acquired; its turn is layer {}'s", layer,
           tables_.layer_of(turn));
  ring_.acquire(compute);
  const Event after = compute.record(EventTiming::kTimed);
  if (spans_ != nullptr) spans_->add(Lane::kWait, fmt::format("wait {}", layer), before, after);
  waits_.add(layer, std::move(before), after);
  return tables_.experts(layer, ring_.slot_of(turn));
}

void StreamedExperts::release(int32_t layer, Stream& compute) {
  if (!tables_.is_streamed(layer)) return;
  ring_.release(compute);
  if (when_ == Fetch::kAhead) fetch();
}

// Issues the pulls of the routed experts of the turn that is used next.
void StreamedExperts::fetch_routed(int32_t layer, Stream& compute, const ConstTensorView& ids) {
  host_ids_.resize(static_cast<size_t>(ids.elements()));
  compute.copy(host_ids_.data(), ids.data(), ids.size_bytes());
  // From here on every earlier turn has been used, so nothing reads the lists of this slot's last one.
  compute.synchronize();
  std::ranges::fill(is_routed_, uint8_t{0});
  for (const int32_t expert : host_ids_) is_routed_.at(static_cast<size_t>(expert)) = 1;
  const int32_t slot = ring_.slot_of(ring_.fetch_turn());
  const GatherPlan& plan = tables_.plan(layer);
  ++routed_.layers;
  for (const GatherPlan::Place& place : plan.places) routed_.experts += is_routed_[static_cast<size_t>(place.expert)];
  const auto choose = [&](const std::vector<Pull>& pulls, std::span<const CopyRange> copies,
                          std::vector<CopyRange>& chosen) {
    chosen.clear();
    for (size_t i = 0; i < pulls.size(); ++i)
      if (is_routed_[static_cast<size_t>(pulls[i].expert)] != 0) chosen.push_back(copies[i]);
  };
  RoutedCopies& copies = routed_copies_[static_cast<size_t>(slot)];
  choose(plan.resident, tables_.resident_copies(layer, slot), copies.resident);
  choose(plan.from_host, tables_.host_copies(layer, slot), copies.host);
  if (!streams_.empty()) ring_.begin_fetch(streams_);
  if (peer_stream_ != nullptr) copy(*peer_stream_, copies.resident, Lane::kGather, layer);
  if (host_stream_ != nullptr) copy(*host_stream_, copies.host, Lane::kHost, layer);
  ring_.end_fetch(streams_);
}

// Issues the pulls of the next turn. They begin when its slot is free.
void StreamedExperts::fetch() {
  const int64_t turn = ring_.fetch_turn();
  const int32_t layer = tables_.layer_of(turn);
  const int32_t slot = ring_.slot_of(turn);
  if (!streams_.empty()) ring_.begin_fetch(streams_);
  if (peer_stream_ != nullptr) copy(*peer_stream_, tables_.resident_copies(layer, slot), Lane::kGather, layer);
  if (host_stream_ != nullptr) copy(*host_stream_, tables_.host_copies(layer, slot), Lane::kHost, layer);
  ring_.end_fetch(streams_);
}

LinkTiming StreamedExperts::time_link() {
  ZP_CHECK(fetches() && ring_.fetch_turn() > ring_.use_turn(), "a link is timed that has brought nothing");
  const int64_t turn = ring_.use_turn();
  const int32_t layer = tables_.layer_of(turn);
  Stream& stream = from_peers() ? *peer_stream_ : *host_stream_;
  const auto all = from_peers() ? tables_.resident_copies(layer, ring_.slot_of(turn))
                                : tables_.host_copies(layer, ring_.slot_of(turn));
  if (all.empty()) return {.bytes_per_second = std::numeric_limits<double>::infinity(), .copy_seconds = 0};
  return time_copies(stream, all);
}

void StreamedExperts::copy(Stream& stream, std::span<const CopyRange> copies, Lane lane, int32_t layer) {
  if (spans_ == nullptr) return stream.copy_batch(copies);
  Event begin = stream.record(EventTiming::kTimed);
  stream.copy_batch(copies);
  spans_->add(lane, fmt::format("{} {}", lane == Lane::kGather ? "gather" : "host", layer), std::move(begin),
              stream.record(EventTiming::kTimed));
}

}  // namespace zp
