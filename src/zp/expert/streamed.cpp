// Issues the pulls of one rank.
#include "zp/expert/streamed.h"

#include <fmt/format.h>

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
      tables_(cluster, rank, ring_, spec.slice_bytes) {
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

std::span<const std::byte* const> StreamedExperts::acquire(int32_t layer, Stream& compute) {
  if (!tables_.is_streamed(layer)) return tables_.experts(layer, 0);
  const int64_t turn = ring_.use_turn();
  ZP_CHECK(tables_.layer_of(turn) == layer, "layer {} is acquired; its turn is layer {}'s", layer,
           tables_.layer_of(turn));
  const Event before = compute.record(EventTiming::kTimed);
  ring_.acquire(compute);
  const Event after = compute.record(EventTiming::kTimed);
  waits_.add(layer, before, after);
  if (spans_ != nullptr) spans_->add(Lane::kWait, fmt::format("wait {}", layer), before, after);
  return tables_.experts(layer, ring_.slot_of(turn));
}

void StreamedExperts::release(int32_t layer, Stream& compute) {
  if (!tables_.is_streamed(layer)) return;
  ring_.release(compute);
  fetch();
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

void StreamedExperts::copy(Stream& stream, std::span<const CopyRange> copies, Lane lane, int32_t layer) {
  if (spans_ == nullptr) return stream.copy_batch(copies);
  Event begin = stream.record(EventTiming::kTimed);
  stream.copy_batch(copies);
  spans_->add(lane, fmt::format("{} {}", lane == Lane::kGather ? "gather" : "host", layer), std::move(begin),
              stream.record(EventTiming::kTimed));
}

}  // namespace zp
