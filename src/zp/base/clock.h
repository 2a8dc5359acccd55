// The library's only source of time, so that tests and the simulator can supply their own.
#pragma once

#include <chrono>
#include <cstdint>

namespace zp {

/// A monotonic clock. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds since an arbitrary fixed point; never decreases.
  [[nodiscard]] virtual int64_t now_ns() const = 0;
};

/// The machine's steady clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] int64_t now_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace zp
