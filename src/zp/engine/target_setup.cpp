// Limits of targets, and calibration files.
#include "zp/engine/target_setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/schedule/policy.h"

namespace zp {
namespace {

// A typical request, until there have been some.
constexpr int64_t kContextTokens = 4096;

}  // namespace

void validate_target(const EngineConfig& config, std::vector<std::string>& problems) {
  const TargetConfig& target = config.target;
  if (make_policy(config.policy) == nullptr)
    problems.push_back(
        fmt::format("policy is {}; there are {}", quote_excerpt(config.policy), fmt::join(policy_names(), ", ")));
  if (!(target.gamma >= 1 && target.gamma <= kGammaMax))
    problems.push_back(fmt::format("target.gamma is {}; it must lie in [1, {}]", target.gamma, kGammaMax));
  if (target.tokens && (*target.tokens < 1 || *target.tokens > kStepTokensMax))
    problems.push_back(fmt::format("target.tokens is {}; it must lie in [1, {}]", *target.tokens, kStepTokensMax));
  if (target.milliseconds && !(*target.milliseconds >= 1e-6 && *target.milliseconds <= 1e6))
    problems.push_back(
        fmt::format("target.milliseconds is {}; it must lie in [0.000001, 1000000]", *target.milliseconds));
  if (target.tokens && target.milliseconds)
    problems.emplace_back("target.tokens and target.milliseconds are both given; only one of them can be");
  const int64_t least =
      std::clamp<int64_t>(std::max(config.step_tokens.value_or(1), target.tokens.value_or(1)), 1, kStepTokensMax);
  if (config.max_step_tokens != 0 && (config.max_step_tokens < least || config.max_step_tokens > 2 * kStepTokensMax))
    problems.push_back(fmt::format("max_step_tokens is {}; it must be 0 or lie in [{}, {}]", config.max_step_tokens,
                                   least, 2 * kStepTokensMax));
  if (config.strategy != "asyncep" && (target.milliseconds || !target.calibration.empty()))
    problems.push_back(
        fmt::format("target.milliseconds and target.calibration are of strategy asyncep alone; the strategy is {}",
                    config.strategy));
}

int64_t step_tokens_max(const EngineConfig& config) {
  if (config.max_step_tokens > 0) return config.max_step_tokens;
  return 2 * std::max(*config.step_tokens, config.target.tokens.value_or(0));
}

LoadControllerSpec load_spec(const EngineConfig& config, int64_t max_request_tokens) {
  LoadControllerSpec load{.gamma = config.target.gamma,
                          .adapt = config.target.adapt,
                          .context_tokens = std::min(kContextTokens, max_request_tokens),
                          .efficient_step_tokens = *config.step_tokens,
                          .fixed_tokens = config.target.tokens};
  if (config.target.milliseconds) load.fixed_seconds = *config.target.milliseconds * 1e-3;
  return load;
}

std::optional<CalibrationFile> known_calibration(const EngineConfig& config, const Placement& placement) {
  if (config.target.calibration.empty()) return std::nullopt;
  CalibrationFile file = read_calibration(config.target.calibration);
  const bool streams = !placement.streamed_layers().empty();
  const bool lacks_peers =
      streams && placement.ranks() > 1 && placement.placing() != Placing::kHost && file.measured.links.peer <= 0;
  const bool lacks_host = streams && !placement.experts_on_host().empty() && file.measured.links.host <= 0;
  if (lacks_peers || lacks_host)
    fail(ErrorCode::kInvalidArgument, "{}: {} is 0, but experts come from {} here", config.target.calibration.string(),
         lacks_peers ? "peer_bytes_per_second" : "host_bytes_per_second", lacks_peers ? "other ranks" : "host memory");
  return file;
}

void require_operations(const CalibrationFile& known, const EngineConfig& config, std::string_view operations) {
  if (known.operations != operations)
    fail(ErrorCode::kInvalidArgument, "{} was measured with operations {}; these are '{}'",
         config.target.calibration.string(), quote_excerpt(known.operations), operations);
}

}  // namespace zp
