// Times and moves copies.
#include "zp/device/link.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "zp/base/clock.h"
#include "zp/base/error.h"

namespace zp {
namespace {

// A sleeping thread wakes late. A copy that is asked for so soon after the last one ended was waiting for it, and
// begins where that one ended; otherwise a link would lose a part of its bandwidth with every copy.
constexpr int64_t kWakeNs = 500'000;

void sleep_until(int64_t time_ns) {
  std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time_ns)));
}

}  // namespace

void Link::transfer(const CopyRange& copy) {
  const int64_t end_ns = reserve(copy.size_bytes);
  if (end_ns == 0) {
    std::memcpy(copy.destination, copy.source, copy.size_bytes);
    return;
  }
  const size_t half = copy.size_bytes / 2;
  std::memcpy(copy.destination, copy.source, half);
  sleep_until(end_ns);
  std::memcpy(static_cast<std::byte*>(copy.destination) + half, static_cast<const std::byte*>(copy.source) + half,
              copy.size_bytes - half);
}

// When the copy ends; 0: at once.
int64_t Link::reserve(size_t size_bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !stalled_; });
  if (fails_after_ && (*fails_after_)-- <= 0) {
    fails_after_ = 0;
    fail(ErrorCode::kDevice, "{} failed at its copy {}", spec_.name, counts_.copies + 1);
  }
  ++counts_.copies;
  counts_.bytes += size_bytes;
  if (spec_.bytes_per_second == 0 && spec_.latency_ns == 0) return 0;
  int64_t duration_ns = spec_.latency_ns;
  if (spec_.bytes_per_second > 0)
    duration_ns +=
        static_cast<int64_t>(static_cast<double>(size_bytes) * 1e9 / static_cast<double>(spec_.bytes_per_second));
  const int64_t now_ns = SteadyClock().now_ns();
  const int64_t begin_ns = now_ns - busy_until_ns_ < kWakeNs ? busy_until_ns_ : now_ns;
  busy_until_ns_ = begin_ns + duration_ns;
  return busy_until_ns_;
}

void Link::stall() {
  const std::lock_guard lock(mutex_);
  stalled_ = true;
}

void Link::resume() {
  {
    const std::lock_guard lock(mutex_);
    stalled_ = false;
  }
  changed_.notify_all();
}

void Link::fail_after(int64_t copies) {
  const std::lock_guard lock(mutex_);
  fails_after_ = copies;
}

Link::Counts Link::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace zp
