// Draws the progress bar.
#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace zp::app {
namespace {
constexpr int64_t kRedrawNs = 100'000'000;
constexpr int64_t kBarWidth = 30;
}  // namespace

Progress::Progress(const Clock& clock, int64_t row_count)
    : clock_(clock), row_count_(row_count), begin_ns_(clock.now_ns()), terminal_(::isatty(STDERR_FILENO) == 1) {}

void Progress::update(int64_t done) {
  if (!terminal_) return;
  const int64_t now_ns = clock_.now_ns();
  if (now_ns - drawn_ns_ < kRedrawNs) return;
  drawn_ns_ = now_ns;
  const double seconds = static_cast<double>(now_ns - begin_ns_) * 1e-9;
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  if (row_count_ > 0) {
    const int64_t filled = std::min(kBarWidth, done * kBarWidth / row_count_);
    fmt::print(stderr, "\r\033[K[{}{}] {}/{} rows, {:.0f} rows/s", std::string(static_cast<size_t>(filled), '#'),
               std::string(static_cast<size_t>(kBarWidth - filled), '.'), done, row_count_, rate);
  } else {
    fmt::print(stderr, "\r\033[K{} rows, {:.0f} rows/s", done, rate);
  }
  std::fflush(stderr);
}

void Progress::finish() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

}  // namespace zp::app
