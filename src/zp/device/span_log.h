// What a rank's streams did when: named spans between timed events, for traces.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "zp/device/device.h"

namespace zp {

/// Which of a rank's channels a span belongs to.
enum class Lane : uint8_t { kCompute, kWait, kGather, kHost, kServe, kStep, kWindow };

/// A span whose times are known, in nanoseconds of SteadyClock.
struct Span {
  Lane lane = Lane::kCompute;
  std::string name;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

/// Thread-safe. Holds the first `spans_max` spans and drops later ones, so that its memory is bounded.
class SpanLog final {
 public:
  explicit SpanLog(size_t spans_max) : spans_max_(spans_max) {}

  /// Both events are timed.
  void add(Lane lane, std::string name, Event begin, Event end);
  /// Forgets all spans so far.
  void clear();
  /// How many spans were dropped.
  [[nodiscard]] int64_t dropped() const;
  /// The spans that have ended, in the order they were added. Never blocks.
  [[nodiscard]] std::vector<Span> finished() const;

 private:
  struct Entry {
    Lane lane;
    std::string name;
    Event begin;
    Event end;
  };

  const size_t spans_max_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // guarded by mutex_
  int64_t dropped_ = 0;         // likewise
};

}  // namespace zp
