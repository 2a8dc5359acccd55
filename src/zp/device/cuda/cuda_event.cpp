// CUDA events, and the time at which they were reached.
#include "zp/device/cuda/cuda_event.h"

#include <utility>

#include "zp/base/clock.h"
#include "zp/device/cuda/check.h"

namespace zp::cuda {
namespace {

// cudaEventElapsedTime() returns milliseconds as a float: after this long it still tells one microsecond from the next.
constexpr int64_t kEpochNs = 8'000'000'000;

// Precise only for events that are less than kEpochNs apart.
int64_t elapsed_ns(cudaEvent_t from, cudaEvent_t to, int32_t device) {
  float elapsed_ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&elapsed_ms, from, to), device);
  return static_cast<int64_t>(static_cast<double>(elapsed_ms) * 1e6);
}

}  // namespace

EventHandle EventPool::take(EventTiming timing) {
  {
    const std::lock_guard lock(mutex_);
    auto& free = free_[static_cast<size_t>(timing)];
    if (!free.empty()) {
      EventHandle event = std::move(free.back());
      free.pop_back();
      return event;
    }
  }
  EventHandle event;
  const unsigned flags = timing == EventTiming::kTimed ? cudaEventDefault : cudaEventDisableTiming;
  CUDA_CHECK(cudaEventCreateWithFlags(event.put(), flags), device_);
  return event;
}

void EventPool::give(EventHandle event, EventTiming timing) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    free_[static_cast<size_t>(timing)].push_back(std::move(event));
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to keep it in, so it is destroyed
  }
}

std::shared_ptr<const EventPool::Epoch> EventPool::epoch() {
  const SteadyClock clock;
  const std::lock_guard lock(mutex_);
  if (epoch_ != nullptr && clock.now_ns() - epoch_->host_ns < kEpochNs) return epoch_;
  auto made = std::make_shared<Epoch>();
  if (stream_.get() == nullptr) CUDA_CHECK(cudaStreamCreateWithFlags(stream_.put(), cudaStreamNonBlocking), device_);
  CUDA_CHECK(cudaEventCreateWithFlags(made->event.put(), cudaEventDefault), device_);
  const int64_t before_ns = clock.now_ns();
  CUDA_CHECK(cudaEventRecord(made->event.get(), stream_.get()), device_);
  CUDA_CHECK(cudaEventSynchronize(made->event.get()), device_);
  const int64_t after_ns = clock.now_ns();
  made->host_ns = before_ns + (after_ns - before_ns) / 2;
  // Epochs follow one another on the device's clock, so that spans across two of them have the right length.
  constexpr int64_t kFarNs = 16 * kEpochNs;
  if (epoch_ != nullptr && made->host_ns - epoch_->host_ns < kFarNs)
    made->host_ns = epoch_->host_ns + elapsed_ns(epoch_->event.get(), made->event.get(), device_);
  epoch_ = std::move(made);
  return epoch_;
}

CudaEventState::~CudaEventState() {
  if (pool_ != nullptr) pool_->give(std::move(event_), timing_);
}

EventStatus CudaEventState::status() const {
  if (failure_) return EventStatus::kFailed;
  const cudaError_t status = cudaEventQuery(event_.get());
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();  // it counts as this thread's last error, and is none
    return EventStatus::kPending;
  }
  return status == cudaSuccess ? EventStatus::kDone : EventStatus::kFailed;
}

void CudaEventState::wait() const {
  if (failure_) std::rethrow_exception(failure_);
  CUDA_CHECK(cudaEventSynchronize(event_.get()), pool_->device());
}

std::optional<int64_t> CudaEventState::reached_ns() const {
  if (epoch_ == nullptr || status() != EventStatus::kDone) return std::nullopt;
  return epoch_->host_ns + elapsed_ns(epoch_->event.get(), event_.get(), pool_->device());
}

}  // namespace zp::cuda
