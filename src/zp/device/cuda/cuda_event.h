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

  explicit EventPool(int32_t device) : device_(device) {}

  [[nodiscard]] int32_t device() const noexcept { return device_; }
  /// The calling thread's current device is device().
  [[nodiscard]] EventHandle take(EventTiming timing);
  void give(EventHandle event, EventTiming timing) noexcept;
  /// An epoch recent enough to count nanoseconds from. Blocks shortly when it makes a new one.
  [[nodiscard]] std::shared_ptr<const Epoch> epoch();

 private:
  const int32_t device_;
  std::mutex mutex_;
  std::vector<EventHandle> free_[2];    // by EventTiming; guarded by mutex_
  std::shared_ptr<const Epoch> epoch_;  // guarded by mutex_
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
