// A trace of what the ranks did, for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "zp/device/span_log.h"

namespace zp {

/// One process a rank, one thread a lane; times in microseconds from the earliest span on.
[[nodiscard]] std::string format_trace(std::span<const std::vector<Span>> ranks);

}  // namespace zp
