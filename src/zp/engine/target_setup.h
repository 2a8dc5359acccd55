// Decides when steps are full, as far as that is known before anything is measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zeroprefill/engine.h"
#include "zp/expert/placement.h"
#include "zp/schedule/calibration_file.h"
#include "zp/schedule/load_controller.h"

namespace zp {

inline constexpr int64_t kStepTokensMax = int64_t{1} << 20;

/// Adds what is wrong with the policy, the target and the size of steps.
void validate_target(const EngineConfig& config, std::vector<std::string>& problems);

/// The most that a step computes, unless one request has more.
[[nodiscard]] int64_t step_tokens_max(const EngineConfig& config);
/// All but what is measured.
[[nodiscard]] LoadControllerSpec load_spec(const EngineConfig& config, int64_t max_request_tokens);

/// What config.target.calibration has, if it names a file. Throws kInvalidArgument if it lacks a link that experts come
/// over, and what is wrong with the file.
[[nodiscard]] std::optional<CalibrationFile> known_calibration(const EngineConfig& config, const Placement& placement);
/// Throws kInvalidArgument if it is of other operations than these: rates of one kind say nothing of another's.
void require_operations(const CalibrationFile& known, const EngineConfig& config, std::string_view operations);

}  // namespace zp
