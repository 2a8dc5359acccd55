// How large steps must be able to get for compute to hide the transfer of experts, before anything is measured.
#pragma once

#include <cstdint>

#include "zeroprefill/engine.h"
#include "zp/engine/setup.h"
#include "zp/schedule/load_controller.h"
#include "zp/shape/model_shape.h"

namespace zp {

/// No step is planned larger than this unless somebody asks for it.
inline constexpr int64_t kHidingTokensMax = 262144;

/// What a rank of `setup` is expected to reach: what is known from a file; else, on a GPU, what an H200 reaches, on the
/// CPU what it is paced to, or a core of a server reaches.
[[nodiscard]] MeasuredRank expected_rank(const EngineConfig& config, const EngineSetup& setup);

/// Tokens that a step must be able to hold so that T fits into it even once gamma has risen to 1.5 times its start: a
/// multiple of chunk_tokens, at most kHidingTokensMax. 0 where transfers do not decide how far steps are filled:
/// nothing is streamed, or the configuration fixes the target or the largest step. `setup` has its placement and ranks.
[[nodiscard]] int64_t hiding_step_tokens(const EngineConfig& config, const ModelShape& shape, const EngineSetup& setup);

}  // namespace zp
