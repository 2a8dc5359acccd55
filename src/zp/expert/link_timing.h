// How fast copies come over a link.
#pragma once

#include <span>

#include "zp/device/device.h"

namespace zp {

struct LinkTiming {
  double bytes_per_second = 0;  ///< infinite if too fast to tell
  double copy_seconds = 0;      ///< before each copy's first byte

  /// With what each copy costs: of blobs that are copied in slices. Infinite if too fast to tell.
  [[nodiscard]] double effective_rate(size_t blob_bytes, size_t slice_bytes) const noexcept;
};

/// Times some of `copies` (not empty) on `stream`, whole and in part; a few tens of milliseconds at most, unless a
/// single copy takes longer. Blocks; throws what a link throws.
[[nodiscard]] LinkTiming time_copies(Stream& stream, std::span<const CopyRange> copies);

}  // namespace zp
