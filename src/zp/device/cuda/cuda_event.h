// Points in the work of a CUDA stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "zp/device/cuda/handle.h"
#include "zp/device/device.h"

namespace zp::cuda {

using EventHandle = Handle<cudaEvent_t, &cudaEventDestroy>;
using StreamHandle = Handle<cudaStream_t, &cudaStreamDestroy>;

/// Makes events and takes them back, since making one costs more than recording it; and knows what time it was at some
/// event, so that others can be timed against it. Thread-safe. Outlives its device for as long as events do.
class EventPool final {
 public:
  /// A point in time that both clocks know.
  struct Epoch {
    EventHandle event;
    int64_t host_ns = 0;
  };

  /// cudaEventElapsedTime() returns milliseconds as a float: after twice this long it still tells two microseconds from
  /// the next.
  static constexpr int64_t kEpochNs = 8'000'000'000;

  /// `epoch_ns`: how long an epoch serves.
  explicit EventPool(int32_t device, int64_t epoch_ns = kEpochNs) : device_(device), epoch_ns_(epoch_ns) {}

  [[nodiscard]] int32_t device() const noexcept { return device_; }
  /// The calling thread's current device is device().
  [[nodiscard]] EventHandle take(EventTiming timing);
  void give(EventHandle event, EventTiming timing) noexcept;
  /// An epoch recent enough to count from. Blocks shortly for the first, and after many seconds without any call.
  [[nodiscard]] std::shared_ptr<const Epoch> epoch();

 private:
  // Both under mutex_.
  [[nodiscard]] std::shared_ptr<Epoch> record_epoch();
  void follow(Epoch& next) const;

  const int32_t device_;
  const int64_t epoch_ns_;
  std::mutex mutex_;
  std::vector<EventHandle> free_[2];    // by EventTiming; guarded by mutex_
  std::shared_ptr<const Epoch> epoch_;  // guarded by mutex_
  std::shared_ptr<Epoch> next_;         // guarded by mutex_; recorded, and perhaps not reached yet
  StreamHandle stream_;                 // guarded by mutex_; empty but for epochs
};

/// A recorded event, or the failure that kept it from being recorded.
class CudaEventState final : public EventState {
 public:
  CudaEventState(std::shared_ptr<EventPool> pool, EventTiming timing, EventHandle event,
                 std::shared_ptr<const EventPool::Epoch> epoch)
      : pool_(std::move(pool)), timing_(timing), event_(std::move(event)), epoch_(std::move(epoch)) {}
  // NOLINTNEXTLINE(bugprone-throw-keyword-missing): kept, to be thrown by whoever waits
  explicit CudaEventState(std::exception_ptr failure) : failure_(std::move(failure)) {}
  ~CudaEventState() override;

  [[nodiscard]] EventStatus status() const override;
  void wait() const override;
  [[nodiscard]] std::optional<int64_t> reached_ns() const override;

  /// Why there is no event; null if there is one.
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }
  [[nodiscard]] cudaEvent_t get() const noexcept { return event_.get(); }

 private:
  std::shared_ptr<EventPool> pool_;
  EventTiming timing_ = EventTiming::kUntimed;
  EventHandle event_;
  std::shared_ptr<const EventPool::Epoch> epoch_;  // timed events only
  std::exception_ptr failure_;
};

}  // namespace zp::cuda
