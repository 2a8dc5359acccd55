// Reserves and sends.
#include "zp/ops/cuda/staging.h"

#include "zp/base/check.h"
#include "zp/device/cuda/check.h"
#include "zp/ops/cuda/kernels.h"

namespace zp::cuda {
namespace {
constexpr size_t kAlignment = 256;
}

StagingRing::StagingRing(CudaDevice& device)
    : host_(device.allocate(kSizeBytes, MemoryKind::kPinnedHost)),
      device_(device.allocate(kSizeBytes)),
      ends_(kSegments) {}

const std::byte* StagingRing::send(CudaStream& stream, const Metadata& metadata) {
  const size_t size_bytes = round_up(metadata.bytes().size(), kAlignment);
  ZP_CHECK(size_bytes <= kSegmentBytes, "{} bytes of metadata; an operation may send {}", size_bytes, kSegmentBytes);
  if (stream_ != stream.get()) restart(stream);
  // All that reads the segment has been issued by now: each operation sends once, before its kernels.
  if (used_ + size_bytes > kSegmentBytes) next_segment(stream);
  const size_t offset = segment_ * kSegmentBytes + used_;
  used_ += size_bytes;
  std::memcpy(host_.data() + offset, metadata.bytes().data(), metadata.bytes().size());
  if (size_bytes > 0)
    launch_upload(device_.data() + offset, host_.data() + offset, metadata.bytes().size(), stream.get());
  return device_.data() + offset;
}

void StagingRing::next_segment(CudaStream& stream) {
  ends_[segment_] = stream.record();
  segment_ = (segment_ + 1) % kSegments;
  used_ = 0;
  if (ends_[segment_]) ends_[segment_]->wait();
}

void StagingRing::restart(CudaStream& stream) {
  if (stream_ != nullptr) CUDA_CHECK(cudaDeviceSynchronize(), stream.device());
  ends_.assign(kSegments, std::nullopt);
  segment_ = 0;
  used_ = 0;
  stream_ = stream.get();
}

}  // namespace zp::cuda
