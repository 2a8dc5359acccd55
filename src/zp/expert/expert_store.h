// The experts that live in one place: on a rank (its shard), or in pinned host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "zp/device/device.h"
#include "zp/expert/placement.h"

namespace zp {

/// Where another rank's copy engine finds experts. The one thing that a rank knows of its peers, so that a peer may be
/// another process whose memory is mapped here. Immutable once made; thread-safe.
class ExpertPeer {
 public:
  virtual ~ExpertPeer() = default;
  ExpertPeer(const ExpertPeer&) = delete;
  ExpertPeer& operator=(const ExpertPeer&) = delete;

  /// The expert's blob; null if it does not live here.
  [[nodiscard]] virtual const std::byte* address(ExpertId id) const noexcept = 0;

 protected:
  ExpertPeer() = default;
};

/// Where one expert goes. Called by any thread; blocks until that memory is there.
using BlobOf = std::function<std::byte*(size_t index)>;

/// How experts are read and packed. `read` fills one blob of memory that the host can write, and may be called by
/// several threads. `fill`, if there is one, is called instead, to make all of `experts` in memory of that kind at
/// once: for devices that pack themselves. `draw`, if there is one, is used instead on devices whose memory the host
/// cannot write: it issues on `stream` what fills a blob of device memory with the same bytes.
struct ExpertPacking {
  size_t blob_bytes = 0;
  std::function<void(ExpertId id, std::span<std::byte> blob)> read;
  std::function<void(ExpertId id, Stream& stream, std::byte* blob)> draw{};
  int32_t threads = 1;
  std::function<void(std::span<const ExpertId> experts, MemoryKind memory, const BlobOf& blob_of)> fill = nullptr;
};

/// Owns blobs on one device, where those of a layer lie side by side, or in pinned memory of the host.
class ExpertStore final : public ExpertPeer {
 public:
  /// Reads and packs `experts` (in rising order); memory of the next ones is allocated meanwhile. Blocks; throws what
  /// `packing` throws. Peers may copy from it as soon as it has been made.
  ExpertStore(Device& device, MemoryKind memory, std::span<const ExpertId> experts, const ExpertPacking& packing);

  [[nodiscard]] const std::byte* address(ExpertId id) const noexcept override;
  [[nodiscard]] uint64_t size_bytes() const noexcept { return size_bytes_; }

 private:
  std::vector<Buffer> parts_;
  std::vector<std::vector<const std::byte*>> blobs_;  // [layer][expert]; as long as needed
  uint64_t size_bytes_ = 0;
};

}  // namespace zp
