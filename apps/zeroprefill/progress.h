// A one-line progress bar, for people who watch.
#pragma once

#include <cstdint>

#include "zp/base/clock.h"

namespace zp::app {

/// Draws on stderr, at most ten times a second, and only if that is a terminal. Never throws. One thread at a time.
class Progress final {
 public:
  explicit Progress(const Clock& clock);
  /// How many rows there are in all, as far as one can tell; 0: no idea, and then there is no bar.
  void expect(int64_t rows) noexcept { expected_ = rows; }
  void update(int64_t done) noexcept;
  /// Clears the line.
  void finish() noexcept;

 private:
  const Clock& clock_;
  int64_t expected_ = 0;
  int64_t begin_ns_;
  int64_t drawn_ns_ = 0;
  bool terminal_;
};

}  // namespace zp::app
