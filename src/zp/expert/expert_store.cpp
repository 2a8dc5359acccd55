// Loads the experts of one place.
#include "zp/expert/expert_store.h"

#include <algorithm>
#include <array>
#include <optional>

#include "zp/base/check.h"
#include "zp/base/thread_pool.h"

namespace zp {
namespace {

// Experts packed at a time through host memory: enough to keep the threads busy, little beside the weights.
constexpr int64_t kStagedExperts = 16;

// What draws experts on a device.
struct Drawing {
  Device& device;
  std::span<const ExpertId> experts;
  const ExpertPacking& packing;
};

// Fills blobs in device memory.
void draw_here(const Drawing& drawing, const Buffer& blobs) {
  const auto& [device, experts, packing] = drawing;
  const std::unique_ptr<Stream> stream = device.create_stream("draw experts");
  for (size_t i = 0; i < experts.size(); ++i) packing.draw(experts[i], *stream, blobs.data() + i * packing.blob_bytes);
  stream->synchronize();
}

// Fills blobs in host memory by way of two parts of device memory, one of which is drawn while the other is copied.
void draw_to_host(const Drawing& drawing, const Buffer& blobs) {
  const auto& [device, experts, packing] = drawing;
  const size_t blob_bytes = packing.blob_bytes;
  const auto part = static_cast<size_t>(kStagedExperts);
  const std::array<Buffer, 2> staging = {device.allocate(part * blob_bytes), device.allocate(part * blob_bytes)};
  const std::unique_ptr<Stream> stream = device.create_stream("draw experts");
  const std::unique_ptr<Stream> copies = device.create_stream("copy experts", StreamUse::kHostLink);
  std::array<std::optional<Event>, 2> copied;
  size_t turn = 0;
  for (size_t first = 0; first < experts.size(); first += part, turn ^= 1U) {
    const size_t count = std::min(part, experts.size() - first);
    if (copied[turn]) stream->wait(*copied[turn]);
    for (size_t i = 0; i < count; ++i) packing.draw(experts[first + i], *stream, staging[turn].data() + i * blob_bytes);
    copies->wait(stream->record());
    copies->copy(blobs.data() + first * blob_bytes, staging[turn].data(), count * blob_bytes);
    copied[turn] = copies->record();
  }
  copies->synchronize();
}

}  // namespace

ExpertStore::ExpertStore(Device& device, MemoryKind memory, std::span<const ExpertId> experts,
                         const ExpertPacking& packing) {
  size_t begin = 0;
  while (begin < experts.size()) {
    size_t end = begin;
    while (end < experts.size() && experts[end].layer == experts[begin].layer) ++end;
    load(device, memory, experts.subspan(begin, end - begin), packing);
    begin = end;
  }
}

// Loads the experts of one layer.
void ExpertStore::load(Device& device, MemoryKind memory, std::span<const ExpertId> experts,
                       const ExpertPacking& packing) {
  const size_t blob_bytes = packing.blob_bytes;
  const auto count = static_cast<int64_t>(experts.size());
  // Memory that the host can write is packed into directly.
  const bool direct = device.kind() == DeviceKind::kCpu || memory == MemoryKind::kPinnedHost;
  Buffer& blobs = layers_.emplace_back(device.allocate(static_cast<size_t>(count) * blob_bytes, memory));
  if (packing.draw) {
    (memory == MemoryKind::kDevice ? draw_here : draw_to_host)({device, experts, packing}, blobs);
    return note(experts, blobs, blob_bytes);
  }
  Buffer staging = direct ? Buffer() : device.allocate(kStagedExperts * blob_bytes, MemoryKind::kPinnedHost);
  const std::unique_ptr<Stream> stream = direct ? nullptr : device.create_stream("load experts", StreamUse::kHostLink);
  ThreadPool pool(packing.threads);
  for (int64_t first = 0; first < count; first += kStagedExperts) {
    const int64_t part = std::min(kStagedExperts, count - first);
    std::byte* target = blobs.data() + static_cast<size_t>(first) * blob_bytes;
    std::byte* packed = direct ? target : staging.data();
    pool.parallel_for(part, [&](int64_t i, int32_t) {
      packing.read(experts[static_cast<size_t>(first + i)], {packed + static_cast<size_t>(i) * blob_bytes, blob_bytes});
    });
    if (direct) continue;
    stream->copy(target, packed, static_cast<size_t>(part) * blob_bytes);
    stream->synchronize();
  }
  note(experts, blobs, blob_bytes);
}

// Where they are now.
void ExpertStore::note(std::span<const ExpertId> experts, const Buffer& blobs, size_t blob_bytes) {
  for (size_t i = 0; i < experts.size(); ++i) {
    const ExpertId id = experts[i];
    const auto layer = static_cast<size_t>(id.layer);
    const auto expert = static_cast<size_t>(id.expert);
    if (blobs_.size() <= layer) blobs_.resize(layer + 1);
    if (blobs_[layer].size() <= expert) blobs_[layer].resize(expert + 1, nullptr);
    ZP_CHECK(blobs_[layer][expert] == nullptr, "expert {} of layer {} is stored twice", id.expert, id.layer);
    blobs_[layer][expert] = blobs.data() + i * blob_bytes;
  }
  size_bytes_ += blobs.size_bytes();
}

const std::byte* ExpertStore::address(ExpertId id) const noexcept {
  const auto layer = static_cast<size_t>(id.layer);
  const auto expert = static_cast<size_t>(id.expert);
  if (layer >= blobs_.size() || expert >= blobs_[layer].size()) return nullptr;
  return blobs_[layer][expert];
}

}  // namespace zp
