// Metadata on its way from the host to kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "zp/base/math.h"
#include "zp/device/cuda/cuda_device.h"
#include "zp/ops/cuda_limits.h"

namespace zp::cuda {

/// Arrays that one operation's kernels read, side by side.
class Metadata final {
 public:
  /// Where an array will lie, relative to the others.
  template <typename T>
  [[nodiscard]] size_t add(std::span<const T> values) {
    const size_t offset = round_up(bytes_.size(), kAlignment);
    bytes_.resize(offset + values.size_bytes());
    if (!values.empty()) std::memcpy(bytes_.data() + offset, values.data(), values.size_bytes());
    return offset;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  static constexpr size_t kAlignment = 16;
  std::vector<std::byte> bytes_;
};

/// A ring of pinned host memory and its image on the device. Nothing waits for the host: kernels read the pinned bytes
/// over the bus, so that metadata never queues behind experts for a copy engine. The ring is in segments; one is used
/// again when the event at its end has been reached; only then can send() block, or when it is called for another
/// stream than before, which an engine never does.
class StagingRing final {
 public:
  explicit StagingRing(CudaDevice& device);

  /// Of either: the device's image is as large as what it is an image of.
  static constexpr size_t kSizeBytes = kOpsPinnedBytes;

  /// Issues the transfer of at most kSegmentBytes. The result is device memory, valid for what is issued on `stream`
  /// until the next send().
  [[nodiscard]] const std::byte* send(CudaStream& stream, const Metadata& metadata);

 private:
  void next_segment(CudaStream& stream);
  void restart(CudaStream& stream);

  Buffer host_;
  Buffer device_;
  std::vector<std::optional<Event>> ends_;  // of the last use of each segment
  size_t segment_ = 0;
  size_t used_ = 0;
  cudaStream_t stream_ = nullptr;  // the one that the ring serves; may be gone by now
};

}  // namespace zp::cuda
