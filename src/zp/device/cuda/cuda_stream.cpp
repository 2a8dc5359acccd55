// Work on CUDA streams.
#include <algorithm>

#include "zp/base/check.h"
#include "zp/device/cuda/cuda_device.h"

namespace zp::cuda {
namespace {

// Neighbouring ranges become one copy, since each costs the host more than a microsecond; up to this size, so that
// copies of two streams still take turns on a link.
constexpr size_t kCopyBytesMax = size_t{64} << 20;

bool continues(const CopyRange& copy, const CopyRange& next) {
  return static_cast<std::byte*>(copy.destination) + copy.size_bytes == next.destination &&
         static_cast<const std::byte*>(copy.source) + copy.size_bytes == next.source &&
         copy.size_bytes + next.size_bytes <= kCopyBytesMax;
}

}  // namespace

CudaStream::CudaStream(int32_t device, std::shared_ptr<EventPool> events)
    : device_(device), events_(std::move(events)) {
  CUDA_CHECK(cudaStreamCreateWithFlags(stream_.put(), cudaStreamNonBlocking), device);
}

CudaStream::~CudaStream() {
  (void)cudaSetDevice(device_);
  (void)cudaStreamSynchronize(stream_.get());
}

void CudaStream::copy(void* destination, const void* source, size_t size_bytes) {
  if (size_bytes == 0) return;
  act("cudaMemcpyAsync",
      [&] { CUDA_CHECK(cudaMemcpyAsync(destination, source, size_bytes, cudaMemcpyDefault, stream_.get()), device_); });
}

void CudaStream::copy_batch(std::span<const CopyRange> copies) {
  act("cudaMemcpyAsync", [&] {
    for (size_t i = 0; i < copies.size();) {
      CopyRange copy = copies[i++];
      for (; i < copies.size() && continues(copy, copies[i]); ++i) copy.size_bytes += copies[i].size_bytes;
      if (copy.size_bytes == 0) continue;
      CUDA_CHECK(cudaMemcpyAsync(copy.destination, copy.source, copy.size_bytes, cudaMemcpyDefault, stream_.get()),
                 device_);
    }
  });
}

void CudaStream::fill(void* destination, std::byte value, size_t size_bytes) {
  if (size_bytes == 0) return;
  act("cudaMemsetAsync", [&] {
    CUDA_CHECK(cudaMemsetAsync(destination, std::to_integer<int>(value), size_bytes, stream_.get()), device_);
  });
}

void CudaStream::wait(const Event& event) {
  const auto* state = dynamic_cast<const CudaEventState*>(&event.state());
  ZP_CHECK(state != nullptr, "a stream of cuda:{} waits for an event of another kind of device", device_);
  if (state->failure() && !failure_) failure_ = state->failure();
  act("cudaStreamWaitEvent", [&] { CUDA_CHECK(cudaStreamWaitEvent(stream_.get(), state->get(), 0), device_); });
}

void CudaStream::synchronize() {
  act("cudaStreamSynchronize", [&] { CUDA_CHECK(cudaStreamSynchronize(stream_.get()), device_); });
  if (!failure_) return;
  // Work from before the failure may still run, and read what the caller is about to free.
  (void)cudaSetDevice(device_);
  (void)cudaStreamSynchronize(stream_.get());
  (void)cudaGetLastError();
  std::rethrow_exception(failure_);
}

std::shared_ptr<const EventState> CudaStream::record_state(EventTiming timing) {
  std::shared_ptr<const EventState> state;
  act("cudaEventRecord", [&] {
    std::shared_ptr<const EventPool::Epoch> epoch = timing == EventTiming::kTimed ? events_->epoch() : nullptr;
    EventHandle event = events_->take(timing);
    CUDA_CHECK(cudaEventRecord(event.get(), stream_.get()), device_);
    state = std::make_shared<CudaEventState>(events_, timing, std::move(event), std::move(epoch));
  });
  if (failure_) return std::make_shared<CudaEventState>(failure_);
  return state;
}

}  // namespace zp::cuda
