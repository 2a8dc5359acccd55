// CPU streams and events: ordering, and how a failure travels.
#include <cstring>
#include <utility>

#include "zp/base/clock.h"
#include "zp/device/cpu/cpu_device.h"

namespace zp::cpu {

EventStatus CpuEventState::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void CpuEventState::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return status_ != EventStatus::kPending; });
  if (failure_) std::rethrow_exception(failure_);
}

std::optional<int64_t> CpuEventState::reached_ns() const {
  const std::lock_guard lock(mutex_);
  if (status_ != EventStatus::kDone) return std::nullopt;
  return reached_ns_;
}

void CpuEventState::set(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    reached_ns_ = SteadyClock().now_ns();
    status_ = failure ? EventStatus::kFailed : EventStatus::kDone;
    failure_ = std::move(failure);
  }
  changed_.notify_all();
}

CpuStream::CpuStream(std::string name, std::shared_ptr<Link> link)
    : name_(std::move(name)), link_(std::move(link)), thread_([this] { run(); }) {}

CpuStream::~CpuStream() {
  queue_.close();
  thread_.join();
}

void CpuStream::run() {
  while (std::optional<Item> item = queue_.pop()) {
    if (item->mark) {
      item->mark->set(failure_);
    } else if (!failure_) {
      try {
        item->act();
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
  }
}

void CpuStream::enqueue(std::function<void()> act) {
  const bool accepted = queue_.push(Item{std::move(act), nullptr});
  ZP_CHECK(accepted, "stream {} is being destroyed while work is issued", name_);
}

void CpuStream::copy(void* destination, const void* source, size_t size_bytes) {
  if (size_bytes == 0) return;
  enqueue([this, copy = CopyRange{destination, source, size_bytes}] { move(copy); });
}

void CpuStream::copy_batch(std::span<const CopyRange> copies) {
  if (copies.empty()) return;
  enqueue([this, copies] {
    for (const CopyRange& copy : copies) move(copy);
  });
}

void CpuStream::fill(void* destination, std::byte value, size_t size_bytes) {
  if (size_bytes == 0) return;
  enqueue([=] { std::memset(destination, std::to_integer<int>(value), size_bytes); });
}

void CpuStream::move(const CopyRange& copy) {
  if (link_)
    link_->transfer(copy);
  else
    std::memcpy(copy.destination, copy.source, copy.size_bytes);
}

void CpuStream::wait(const Event& event) {
  enqueue([state = event.shared_state()] { state->wait(); });
}

void CpuStream::synchronize() { record().wait(); }

std::shared_ptr<const EventState> CpuStream::record_state(EventTiming /*timing*/) {
  auto state = std::make_shared<CpuEventState>();
  const bool accepted = queue_.push(Item{{}, state});
  ZP_CHECK(accepted, "stream {} is being destroyed while an event is recorded", name_);
  return state;
}

}  // namespace zp::cpu
