// The stage table: where each millisecond of a pass goes, and what bounds it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bench/model/timed_ops.h"
#include "zp/shape/hardware_profile.h"

namespace zp::bench {

/// The longest first: time, share, work, achieved rate, and the time that the work takes at the hardware's rates (the
/// larger of products and memory). What lies between operations is the last line. Without a profile there are no
/// bounds.
[[nodiscard]] std::string stage_text(const PassTotals& pass, const std::optional<HardwareProfile>& hardware);
[[nodiscard]] nlohmann::ordered_json stage_json(const PassTotals& pass, const std::optional<HardwareProfile>& hardware);

}  // namespace zp::bench
