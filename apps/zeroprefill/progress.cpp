// Draws the progress bar.
#include "progress.h"

#include <unistd.h>

#include <algorithm>

#include "note.h"

namespace zp::app {
namespace {

constexpr int64_t kRedrawNs = 100'000'000;
constexpr int kBarWidth = 30;
constexpr const char* kFull = "##############################";
constexpr const char* kEmpty = "..............................";

}  // namespace

Progress::Progress(const Clock& clock)
    : clock_(clock), begin_ns_(clock.now_ns()), terminal_(::isatty(STDERR_FILENO) == 1) {}

void Progress::update(int64_t done) noexcept {
  if (!terminal_) return;
  const int64_t now_ns = clock_.now_ns();
  if (now_ns - drawn_ns_ < kRedrawNs) return;
  drawn_ns_ = now_ns;
  const double seconds = static_cast<double>(now_ns - begin_ns_) * 1e-9;
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  if (expected_ <= 0) return note("\r\033[K{} rows, {:.0f} rows/s", done, rate);
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(expected_));
  const int filled = static_cast<int>(share * kBarWidth);
  note("\r\033[K[{:.{}}{:.{}}] {:3.0f} % of about {} rows, {:.0f} rows/s", kFull, filled, kEmpty, kBarWidth - filled,
       100 * share, expected_, rate);
}

void Progress::finish() noexcept {
  if (terminal_) note("\r\033[K");
}

}  // namespace zp::app
