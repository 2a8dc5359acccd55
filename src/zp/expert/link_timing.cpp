// As many small copies as whole ones: what these take longer is bytes, what is left is before each first byte.
#include "zp/expert/link_timing.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "zp/base/math.h"

namespace zp {
namespace {

constexpr int32_t kRepeats = 3;
constexpr size_t kSmaller = 8;
constexpr double kCopiesMax = 64;
constexpr double kSeconds = 0.02;  // of one batch of copies

double seconds_once(Stream& stream, std::span<const CopyRange> copies) {
  const Event begin = stream.record(EventTiming::kTimed);
  stream.copy_batch(copies);
  const Event end = stream.record(EventTiming::kTimed);
  stream.synchronize();
  return static_cast<double>(*end.reached_ns() - *begin.reached_ns()) * 1e-9;
}

// Medians: whatever else the machine does makes single ones slower.
double seconds_of(Stream& stream, std::span<const CopyRange> copies) {
  std::array<double, kRepeats> seconds{};
  for (double& each : seconds) each = seconds_once(stream, copies);
  std::ranges::sort(seconds);
  return seconds[kRepeats / 2];
}

}  // namespace

double LinkTiming::effective_rate(size_t blob_bytes, size_t slice_bytes) const noexcept {
  const auto bytes = static_cast<double>(blob_bytes);
  const auto copies = static_cast<double>(ceil_div(blob_bytes, slice_bytes));
  const double seconds = copies * copy_seconds + bytes / bytes_per_second;
  return seconds > 0 ? bytes / seconds : std::numeric_limits<double>::infinity();
}

LinkTiming time_copies(Stream& stream, std::span<const CopyRange> copies) {
  // Of a slow link a few copies say enough.
  const double affordable = kSeconds / std::max(seconds_once(stream, copies.first(1)), kSeconds / kCopiesMax);
  const auto whole = copies.first(std::clamp<size_t>(static_cast<size_t>(affordable), 1, copies.size()));
  std::vector<CopyRange> small(whole.begin(), whole.end());
  size_t whole_bytes = 0;
  size_t small_bytes = 0;
  for (CopyRange& copy : small) {
    whole_bytes += copy.size_bytes;
    copy.size_bytes /= kSmaller;
    small_bytes += copy.size_bytes;
  }
  const double small_seconds = seconds_of(stream, small);
  const double more_seconds = seconds_of(stream, whole) - small_seconds;
  const double rate = more_seconds > 0 ? static_cast<double>(whole_bytes - small_bytes) / more_seconds
                                       : std::numeric_limits<double>::infinity();
  const double latencies = std::max(0.0, small_seconds - static_cast<double>(small_bytes) / rate);
  return {.bytes_per_second = rate, .copy_seconds = latencies / static_cast<double>(small.size())};
}

}  // namespace zp
