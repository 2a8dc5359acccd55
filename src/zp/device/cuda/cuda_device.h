// An NVIDIA GPU of the Hopper generation as a device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "zp/device/cuda/check.h"
#include "zp/device/cuda/cuda_event.h"
#include "zp/device/cuda/pinned_memory.h"
#include "zp/device/device.h"

namespace zp::cuda {

/// A CUDA stream. What fails when it is issued poisons the stream as a failed act does; what fails on the device later
/// (an illegal access, say) is for CUDA the end of everything in the process, and every event and stream reports it.
class CudaStream final : public Stream {
 public:
  CudaStream(int32_t device, std::shared_ptr<EventPool> events);
  /// Waits for what was issued. Failures nobody synchronized on are dropped.
  ~CudaStream() override;

  void copy(void* destination, const void* source, size_t size_bytes) override;
  void copy_batch(std::span<const CopyRange> copies) override;
  void fill(void* destination, std::byte value, size_t size_bytes) override;
  void wait(const Event& event) override;
  void synchronize() override;

  [[nodiscard]] cudaStream_t get() const noexcept { return stream_.get(); }
  [[nodiscard]] int32_t device() const noexcept { return device_; }

  /// Runs `issue()`, which issues work on get(), with the thread's current device set, unless the stream is poisoned.
  /// What it throws, and a launch that failed (named by `what`), poisons the stream.
  template <typename Issue>
  void act(const char* what, Issue&& issue) {
    if (failure_) return;
    try {
      CUDA_CHECK(cudaSetDevice(device_), device_);
      std::forward<Issue>(issue)();
      check(cudaGetLastError(), what, device_);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

 protected:
  std::shared_ptr<const EventState> record_state(EventTiming timing) override;

 private:
  const int32_t device_;
  std::shared_ptr<EventPool> events_;
  StreamHandle stream_;
  std::exception_ptr failure_;  // the issuing thread's
};

/// One GPU. Allocations are plain ones: no managed memory.
class CudaDevice final : public Device {
 public:
  /// Throws kUnsupported, saying what there is, without a usable driver, a GPU of that index, or compute
  /// capability 9.0.
  explicit CudaDevice(int32_t index);

  [[nodiscard]] DeviceKind kind() const noexcept override { return DeviceKind::kCuda; }
  [[nodiscard]] std::string description() const override { return description_; }
  [[nodiscard]] MemoryInfo memory_info() const override;
  [[nodiscard]] Buffer allocate(size_t size_bytes, MemoryKind kind = MemoryKind::kDevice) override;
  [[nodiscard]] std::unique_ptr<Stream> create_stream(std::string name, StreamUse use = StreamUse::kCompute) override;
  void reach_memory_of(Device& other) override;

  [[nodiscard]] int32_t index() const noexcept { return index_; }
  [[nodiscard]] int32_t multiprocessors() const noexcept { return multiprocessors_; }
  /// Makes this the calling thread's current device.
  void bind() const { CUDA_CHECK(cudaSetDevice(index_), index_); }

 private:
  void release(std::byte* data, size_t size_bytes, MemoryKind kind) noexcept override;

  int32_t index_;
  int32_t multiprocessors_ = 0;
  std::string description_;
  std::shared_ptr<EventPool> events_;
  CudaPageLocker locker_{index_};
  LockedMemory pinned_{locker_};
};

}  // namespace zp::cuda
