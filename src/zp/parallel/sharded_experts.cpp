// Loads a rank's experts.
#include "zp/parallel/sharded_experts.h"

#include "zp/base/check.h"

namespace zp {

ShardedExperts::ShardedExperts(const Parts& parts) {
  const std::vector<Target> targets = make_room(parts);
  if (parts.lanes != nullptr) {
    parts.lanes->run(std::ssize(targets), [&](int64_t i, LoadLanes::Lane& lane) {
      const Target& target = targets[static_cast<size_t>(i)];
      parts.reader.bring(target.layer, target.expert, lane, parts.lanes->packing(), target.blob);
    });
    return;
  }
  const size_t blob_bytes = parts.reader.blob_bytes();
  const bool direct = parts.device.kind() == DeviceKind::kCpu;  // the device's memory is the host's: pack in place
  const Buffer staging = direct ? Buffer() : parts.device.allocate(blob_bytes, MemoryKind::kPinnedHost);
  const std::unique_ptr<Stream> stream = parts.device.create_stream("load experts");
  for (const Target& target : targets) {
    parts.reader.read(target.layer, target.expert, {direct ? target.blob : staging.data(), blob_bytes});
    if (direct) continue;
    stream->copy(target.blob, staging.data(), blob_bytes);
    stream->synchronize();
  }
}

std::vector<ShardedExperts::Target> ShardedExperts::make_room(const Parts& parts) {
  const size_t blob_bytes = parts.reader.blob_bytes();
  const IndexRange held = parts.shard.experts;
  std::vector<Target> targets;
  layers_.resize(static_cast<size_t>(parts.shape.layers));
  for (int32_t l = 0; l < parts.shape.layers; ++l) {
    if (parts.shape.feed_forward[static_cast<size_t>(l)] != FeedForward::kMoe) continue;
    Layer& layer = layers_[static_cast<size_t>(l)];
    layer.blobs = parts.device.allocate(static_cast<size_t>(held.count) * blob_bytes);
    layer.experts.assign(static_cast<size_t>(parts.shape.experts), nullptr);
    for (int32_t e = held.begin; e < held.end(); ++e) {
      std::byte* blob = layer.blobs.data() + static_cast<size_t>(e - held.begin) * blob_bytes;
      layer.experts[static_cast<size_t>(e)] = blob;
      targets.push_back({.layer = l, .expert = e, .blob = blob});
    }
  }
  return targets;
}

std::span<const std::byte* const> ShardedExperts::acquire(int32_t layer, Stream& /*compute*/) {
  const Layer& found = layers_.at(static_cast<size_t>(layer));
  ZP_CHECK(!found.experts.empty(), "layer {} has no experts", layer);
  return found.experts;
}

}  // namespace zp
