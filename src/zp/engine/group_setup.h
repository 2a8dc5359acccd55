// Turns an EngineConfig with a synchronous strategy into sizes: what each rank of the group holds, and its memory.
#pragma once

#include "zeroprefill/engine.h"
#include "zp/engine/setup.h"
#include "zp/model/weights.h"

namespace zp {

/// Whether the configuration asks for a synchronous group rather than for ranks that run by themselves.
[[nodiscard]] inline bool is_group(const EngineConfig& config) { return config.strategy != "asyncep"; }

/// As make_setup(), for is_group(): with `group` set. Throws kInvalidArgument
/// for a strategy that does not exist or that the model refuses, naming the numbers that do not fit.
[[nodiscard]] EngineSetup make_group_setup(const EngineConfig& config, const WeightSource& source);

}  // namespace zp
