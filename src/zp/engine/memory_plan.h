// Which memory plans are refused?
#pragma once

#include <string_view>

#include "zeroprefill/engine.h"

namespace zp {

/// Bytes of the limit that the plan leaves; 0 when it does not fit.
[[nodiscard]] uint64_t left_bytes(const MemoryPlan& plan) noexcept;

/// Throws kOutOfMemory with both plans, and `advice`, when either does not fit.
void require_fits(const EngineMemory& memory, std::string_view advice);

}  // namespace zp
