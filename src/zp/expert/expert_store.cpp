// Loads the experts of one place.
#include "zp/expert/expert_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "zp/base/check.h"
#include "zp/base/error.h"
#include "zp/base/thread_pool.h"

namespace zp {
namespace {

// Pinning takes as long as filling, so several threads do it, each a part at a time. Parts are small, since nobody
// makes pages while the driver locks a large one (measured: docs/notes/loading.md).
constexpr size_t kPinningThreads = 16;
constexpr size_t kPinnedPartBytes = size_t{256} << 20;

// The memory of all experts: part after part, each of one layer, allocated on threads of its own.
class BlobMemory final {
 public:
  BlobMemory(Device& device, MemoryKind memory, std::span<const ExpertId> experts, size_t blob_bytes)
      : blob_bytes_(blob_bytes) {
    const bool pinned = memory == MemoryKind::kPinnedHost;
    const size_t part_experts = pinned ? std::max<size_t>(kPinnedPartBytes / blob_bytes, 1) : experts.size();
    for (size_t i = 0; i < experts.size(); ++i) {
      if (i == 0 || experts[i].layer != experts[i - 1].layer || parts_.back().count == part_experts)
        parts_.push_back({.first = i, .count = 0});
      ++parts_.back().count;
      part_of_.push_back(parts_.size() - 1);
    }
    buffers_.resize(parts_.size());
    promises_.resize(parts_.size());
    for (std::promise<std::byte*>& promise : promises_) addresses_.push_back(promise.get_future().share());
    const size_t threads = pinned ? std::min(kPinningThreads, parts_.size()) : 1;
    for (size_t i = 0; i < threads; ++i)
      threads_.emplace_back([this, &device, memory](const std::stop_token& stop) { allocate(device, memory, stop); });
  }

  // Blocks until the memory is there; throws why it is not.
  [[nodiscard]] std::byte* blob(size_t expert) const {
    const size_t part = part_of_[expert];
    return addresses_[part].get() + (expert - parts_[part].first) * blob_bytes_;
  }
  // All memory is there.
  [[nodiscard]] std::vector<Buffer> take() {
    for (std::jthread& thread : threads_) thread.join();
    for (const auto& address : addresses_) (void)address.get();
    return std::move(buffers_);
  }

 private:
  struct Part {
    size_t first = 0;  // of the experts
    size_t count = 0;
  };

  // Part after part that no other thread has taken.
  void allocate(Device& device, MemoryKind memory, const std::stop_token& stop) {
    for (size_t part = next_++; part < parts_.size(); part = next_++) {
      try {
        if (stop.stop_requested()) fail(ErrorCode::kCancelled, "loading has ended");
        buffers_[part] = device.allocate(parts_[part].count * blob_bytes_, memory);
        promises_[part].set_value(buffers_[part].data());
      } catch (...) {
        promises_[part].set_exception(std::current_exception());
      }
    }
  }

  size_t blob_bytes_;
  std::vector<Part> parts_;
  std::vector<size_t> part_of_;  // [experts]
  std::atomic<size_t> next_{0};  // of the parts
  // [parts]; a part's are those of the thread that took it, until that ends.
  std::vector<Buffer> buffers_;
  std::vector<std::promise<std::byte*>> promises_;
  std::vector<std::shared_future<std::byte*>> addresses_;
  std::vector<std::jthread> threads_;  // last: they end before what they write to goes
};

// What draws experts on a device.
struct Drawing {
  Device& device;
  MemoryKind memory;
  std::span<const ExpertId> experts;
  const ExpertPacking& packing;
};

// Fills blobs from the device: in its own memory directly, in the host's by way of parts of device memory, one of which
// is drawn while the others are copied.
void draw_experts(const Drawing& drawing, const BlobOf& blob_of) {
  constexpr size_t kStaged = 8;
  const auto& [device, memory, experts, packing] = drawing;
  const std::unique_ptr<Stream> stream = device.create_stream("draw experts");
  if (memory == MemoryKind::kDevice) {
    for (size_t i = 0; i < experts.size(); ++i) packing.draw(experts[i], *stream, blob_of(i));
    return stream->synchronize();
  }
  const Buffer staging = device.allocate(kStaged * packing.blob_bytes);
  const std::unique_ptr<Stream> copies = device.create_stream("copy experts", StreamUse::kHostLink);
  std::array<std::optional<Event>, kStaged> copied;
  for (size_t i = 0; i < experts.size(); ++i) {
    std::byte* blob = staging.data() + i % kStaged * packing.blob_bytes;
    std::optional<Event>& last = copied[i % kStaged];
    if (last) stream->wait(*last);
    packing.draw(experts[i], *stream, blob);
    copies->wait(stream->record());
    copies->copy(blob_of(i), blob, packing.blob_bytes);
    last = copies->record();
  }
  copies->synchronize();
}

}  // namespace

ExpertStore::ExpertStore(Device& device, MemoryKind memory, std::span<const ExpertId> experts,
                         const ExpertPacking& packing) {
  BlobMemory blobs(device, memory, experts, packing.blob_bytes);
  const BlobOf blob_of = [&](size_t i) { return blobs.blob(i); };
  if (packing.fill) {
    packing.fill(experts, memory, blob_of);
  } else if (packing.draw) {
    draw_experts({device, memory, experts, packing}, blob_of);
  } else {
    ZP_CHECK(device.kind() == DeviceKind::kCpu || memory == MemoryKind::kPinnedHost,
             "experts are read into memory of {}, which the host cannot write", device.description());
    ThreadPool pool(packing.threads);
    pool.parallel_for(std::ssize(experts), [&](int64_t i, int32_t) {
      const auto index = static_cast<size_t>(i);
      packing.read(experts[index], {blobs.blob(index), packing.blob_bytes});
    });
  }
  for (size_t i = 0; i < experts.size(); ++i) {
    const auto layer = static_cast<size_t>(experts[i].layer);
    const auto expert = static_cast<size_t>(experts[i].expert);
    if (blobs_.size() <= layer) blobs_.resize(layer + 1);
    if (blobs_[layer].size() <= expert) blobs_[layer].resize(expert + 1, nullptr);
    ZP_CHECK(blobs_[layer][expert] == nullptr, "expert {} of layer {} is stored twice", expert, layer);
    blobs_[layer][expert] = blobs.blob(i);
  }
  parts_ = blobs.take();
  for (const Buffer& part : parts_) size_bytes_ += part.size_bytes();
}

const std::byte* ExpertStore::address(ExpertId id) const noexcept {
  const auto layer = static_cast<size_t>(id.layer);
  const auto expert = static_cast<size_t>(id.expert);
  if (layer >= blobs_.size() || expert >= blobs_[layer].size()) return nullptr;
  return blobs_[layer][expert];
}

}  // namespace zp
