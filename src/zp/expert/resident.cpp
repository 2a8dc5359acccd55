// Loads all experts into the rank's memory.
#include "zp/expert/resident.h"

#include "zp/base/check.h"
#include "zp/base/thread_pool.h"

namespace zp {
namespace {

// Experts packed at a time through host memory: enough to keep the threads busy, little beside the weights.
constexpr int64_t kStagedExperts = 16;

}  // namespace

ResidentExperts::ResidentExperts(const ModelShape& shape, const ExpertReader& reader, Device& device, int32_t threads) {
  const size_t blob_bytes = reader.blob_bytes();
  const bool direct = device.kind() == DeviceKind::kCpu;  // the device's memory is the host's: pack in place
  Buffer staging = direct ? Buffer() : device.allocate(kStagedExperts * blob_bytes, MemoryKind::kPinnedHost);
  const std::unique_ptr<Stream> stream = device.create_stream("load experts");
  ThreadPool pool(threads);
  layers_.resize(static_cast<size_t>(shape.layers));
  for (int32_t l = 0; l < shape.layers; ++l) {
    if (shape.feed_forward[static_cast<size_t>(l)] != FeedForward::kMoe) continue;
    Layer& layer = layers_[static_cast<size_t>(l)];
    layer.blobs = device.allocate(static_cast<size_t>(shape.experts) * blob_bytes);
    for (int64_t first = 0; first < shape.experts; first += kStagedExperts) {
      const int64_t count = std::min<int64_t>(kStagedExperts, shape.experts - first);
      std::byte* target = layer.blobs.data() + static_cast<size_t>(first) * blob_bytes;
      std::byte* packed = direct ? target : staging.data();
      pool.parallel_for(count, [&](int64_t i, int32_t) {
        reader.read(l, static_cast<int32_t>(first + i), {packed + static_cast<size_t>(i) * blob_bytes, blob_bytes});
      });
      if (direct) continue;
      stream->copy(target, packed, static_cast<size_t>(count) * blob_bytes);
      stream->synchronize();
    }
    for (int32_t e = 0; e < shape.experts; ++e)
      layer.experts.push_back(layer.blobs.data() + static_cast<size_t>(e) * blob_bytes);
  }
}

std::span<const std::byte* const> ResidentExperts::acquire(int32_t layer, Stream& /*compute*/) {
  const Layer& found = layers_.at(static_cast<size_t>(layer));
  ZP_CHECK(!found.experts.empty(), "layer {} has no experts", layer);
  return found.experts;
}

void ResidentExperts::release(int32_t /*layer*/, Stream& /*compute*/) {}

}  // namespace zp
