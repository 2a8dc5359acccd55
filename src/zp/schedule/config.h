// The limits within which the scheduler works.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zp/schedule/cost.h"

namespace zp {

struct SchedulerConfig {
  std::vector<int32_t> pool_blocks = {0};  ///< [ranks] KV blocks a rank can keep; 0: nothing outlives its step
  LoadRule load = token_load(8192);        ///< when a step is full
  int64_t step_tokens_max = 16384;         ///< computed tokens of a step, unless one request alone has more
  int64_t max_request_tokens = 131072;
  int32_t queue_max = 1 << 20;  ///< waiting requests
  int32_t look_ahead = 32'768;  ///< waiting requests that one plan looks at
  bool even_last_steps = true;  ///< when the queue ends, what is left is spread evenly over ranks (step_targets.h)
  /// After this many younger requests went first, the oldest goes before all others. One request a plan does: several
  /// old ones are passed by more.
  int32_t bypass_max = 4096;
  int64_t deadline_slack_ns = 1'000'000'000;  ///< a deadline nearer than this presses
  bool keep_one_off_blocks = true;            ///< keep blocks that nobody is known to want again
  double one_off_share = 0.125;               ///< of a pool: up to here, such blocks may push out reused ones

  [[nodiscard]] int32_t ranks() const noexcept { return static_cast<int32_t>(pool_blocks.size()); }
};

/// All contradictions found in a configuration; empty when there are none.
[[nodiscard]] std::vector<std::string> validate(const SchedulerConfig& config);

}  // namespace zp
