// What memory plans of all kinds share: what the host takes, limits, room for keys and values, and the refusal.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "zeroprefill/engine.h"
#include "zp/device/device.h"

namespace zp {

/// Bytes of the limit that the plan leaves; 0 when it does not fit.
[[nodiscard]] uint64_t left_bytes(const MemoryPlan& plan) noexcept;

/// What the host takes for an engine as a whole, whatever its ranks do.
[[nodiscard]] std::vector<MemoryItem> host_items(const EngineConfig& config, int64_t max_request_tokens);

/// Adds the locked host memory of as many objects that have operations (make_ops()) to the plan, if they take any.
void plan_metadata(const Device& device, int32_t ops_objects, MemoryPlan& host);

/// Sets the limits of both plans, given what the host takes. A GPU's memory is its own; virtual ranks share the host's,
/// so each may use its part of what the host itself leaves.
void set_limits(const EngineConfig& config, const Device& device, EngineMemory& memory);

/// The most that is kept for keys and values unless told otherwise.
inline constexpr uint64_t kDefaultKvBytesMax = uint64_t{16} << 30;
/// How many blocks of `block_bytes` of keys and values a rank keeps, given what else its plan has. Adds them to the
/// plan.
[[nodiscard]] int32_t plan_kv_blocks(const EngineConfig& config, size_t block_bytes, MemoryPlan& plan);

[[nodiscard]] bool fits(const EngineMemory& memory) noexcept;
/// Throws kOutOfMemory with both plans, and `advice`, when either does not fit.
void require_fits(const EngineMemory& memory, std::string_view advice);

}  // namespace zp
