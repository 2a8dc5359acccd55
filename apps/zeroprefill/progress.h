// A one-line progress bar, for people who watch.
#pragma once

#include <cstdint>

#include "zp/base/clock.h"

namespace zp::app {

/// Draws on stderr, at most ten times a second, and only if that is a terminal. One thread at a time.
class Progress final {
 public:
  Progress(const Clock& clock, int64_t row_count);  // row_count 0: unknown
  void update(int64_t done);
  /// Clears the line.
  void finish();

 private:
  const Clock& clock_;
  int64_t row_count_;
  int64_t begin_ns_;
  int64_t drawn_ns_ = 0;
  bool terminal_;
};

}  // namespace zp::app
