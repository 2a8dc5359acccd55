// Counts bytes.
#include "zp/parallel/traffic.h"

#include <numeric>

#include "zp/base/check.h"

namespace zp {
namespace {

uint64_t sum_of(std::span<const uint64_t> parts) { return std::accumulate(parts.begin(), parts.end(), uint64_t{0}); }

// The part of the rank `steps` further round the ring.
uint64_t part_at(std::span<const uint64_t> parts, int32_t rank, int32_t steps) {
  const auto ranks = static_cast<int32_t>(parts.size());
  return parts[static_cast<size_t>((rank + steps + ranks) % ranks)];
}

}  // namespace

std::string_view to_string(CollectiveKind kind) noexcept {
  switch (kind) {
    case CollectiveKind::kAllGather: return "all_gather";
    case CollectiveKind::kReduceScatter: return "reduce_scatter";
    case CollectiveKind::kAllReduce: return "all_reduce";
    case CollectiveKind::kAllToAll: return "all_to_all";
    case CollectiveKind::kSendReceive: return "send_receive";
  }
  return "unknown";
}

TrafficCount& TrafficCount::operator+=(const TrafficCount& other) noexcept {
  calls += other.calls;
  bytes.sent += other.bytes.sent;
  bytes.received += other.bytes.received;
  total_ns += other.total_ns;
  wait_ns += other.wait_ns;
  return *this;
}

TrafficBytes ring_all_gather(std::span<const uint64_t> parts, int32_t rank) {
  const uint64_t all = sum_of(parts);
  return {.sent = all - part_at(parts, rank, 1), .received = all - part_at(parts, rank, 0)};
}

TrafficBytes ring_reduce_scatter(std::span<const uint64_t> parts, int32_t rank) {
  const uint64_t all = sum_of(parts);
  return {.sent = all - part_at(parts, rank, 0), .received = all - part_at(parts, rank, -1)};
}

TrafficBytes ring_all_reduce(std::span<const uint64_t> parts, int32_t rank) {
  const TrafficBytes scatter = ring_reduce_scatter(parts, rank);
  const TrafficBytes gather = ring_all_gather(parts, rank);
  return {.sent = scatter.sent + gather.sent, .received = scatter.received + gather.received};
}

void TrafficLog::add(CollectiveKind kind, const TrafficTag& tag, const TrafficCount& count) {
  const std::lock_guard lock(mutex_);
  ZP_CHECK(tag.layer >= 0 && static_cast<size_t>(tag.layer) < layers_.size(), "layer {} of {}", tag.layer,
           layers_.size());
  layers_[static_cast<size_t>(tag.layer)][static_cast<size_t>(kind)][static_cast<size_t>(tag.use)] += count;
}

TrafficCount TrafficLog::count(int32_t layer, CollectiveKind kind, TrafficUse use) const {
  const std::lock_guard lock(mutex_);
  return layers_.at(static_cast<size_t>(layer))[static_cast<size_t>(kind)][static_cast<size_t>(use)];
}

TrafficCount TrafficLog::total(TrafficUse use) const {
  const std::lock_guard lock(mutex_);
  TrafficCount sum;
  for (const Layer& layer : layers_)
    for (const auto& kind : layer) sum += kind[static_cast<size_t>(use)];
  return sum;
}

}  // namespace zp
