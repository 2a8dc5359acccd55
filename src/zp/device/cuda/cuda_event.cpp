// CUDA events, and the time at which they were reached.
#include "zp/device/cuda/cuda_event.h"

#include <utility>

#include "zp/base/clock.h"
#include "zp/device/cuda/check.h"

namespace zp::cuda {
namespace {

// Precise only for events that are not much more than EventPool::kEpochNs apart.
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

std::shared_ptr<EventPool::Epoch> EventPool::record_epoch() {
  auto made = std::make_shared<Epoch>();
  if (stream_.get() == nullptr) CUDA_CHECK(cudaStreamCreateWithFlags(stream_.put(), cudaStreamNonBlocking), device_);
  CUDA_CHECK(cudaEventCreateWithFlags(made->event.put(), cudaEventDefault), device_);
  CUDA_CHECK(cudaEventRecord(made->event.get(), stream_.get()), device_);
  return made;
}

// On the device's clock, so that spans across two epochs have the right length; but not after so long that it would
// tell microseconds no more.
void EventPool::follow(Epoch& next) const {
  if (epoch_ != nullptr && next.host_ns - epoch_->host_ns < 16 * epoch_ns_)
    next.host_ns = epoch_->host_ns + elapsed_ns(epoch_->event.get(), next.event.get(), device_);
}

// Whoever asks issues a rank's work. Its stream has work left while it waits here; but streams share the device's
// queues, so the event may come after all of that, and then the device stands still until this thread has issued more.
// So an epoch is waited for only where nothing has been timed for long, and the rank had no work. Otherwise it is
// recorded, and taken once it is reached; until then the last one serves on, a little less precisely.
std::shared_ptr<const EventPool::Epoch> EventPool::epoch() {
  const SteadyClock clock;
  const std::lock_guard lock(mutex_);
  const int64_t now_ns = clock.now_ns();
  if (next_ != nullptr) {
    const cudaError_t status = cudaEventQuery(next_->event.get());
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();  // it counts as this thread's last error, and is none
      return epoch_;
    }
    check(status, "cudaEventQuery", device_);
    follow(*next_);
    epoch_ = std::exchange(next_, nullptr);
  }
  const int64_t age_ns = epoch_ == nullptr ? INT64_MAX : now_ns - epoch_->host_ns;
  if (age_ns >= 2 * epoch_ns_) {
    std::shared_ptr<Epoch> made = record_epoch();
    CUDA_CHECK(cudaEventSynchronize(made->event.get()), device_);
    made->host_ns = now_ns + (clock.now_ns() - now_ns) / 2;
    follow(*made);
    epoch_ = std::move(made);
  } else if (age_ns >= epoch_ns_) {
    next_ = record_epoch();
    next_->host_ns = now_ns;
  }
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
