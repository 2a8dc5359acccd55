// Checks of a configuration, all at once, and names of its enums.
#include "zp/schedule/config.h"

#include <fmt/format.h>

#include "zp/cache/prefix_index.h"

namespace zp {

std::vector<std::string> validate(const SchedulerConfig& config) {
  std::vector<std::string> problems;
  const auto positive = [&](const char* name, int64_t value) {
    if (value <= 0) problems.push_back(fmt::format("{} is {}; it must be at least 1", name, value));
  };
  if (config.pool_blocks.empty() || config.pool_blocks.size() > kMaxRanks)
    problems.push_back(fmt::format("pool_blocks has {} entries, one a rank; 1 to {} are possible",
                                   config.pool_blocks.size(), kMaxRanks));
  for (size_t rank = 0; rank < config.pool_blocks.size(); ++rank)
    if (config.pool_blocks[rank] < 0)
      problems.push_back(
          fmt::format("pool_blocks of rank {} is {}; it must not be negative", rank, config.pool_blocks[rank]));
  positive("step_tokens_max", config.step_tokens_max);
  positive("max_request_tokens", config.max_request_tokens);
  if (config.max_request_tokens > INT32_MAX)
    problems.push_back(fmt::format("max_request_tokens is {}; the limit is {}", config.max_request_tokens, INT32_MAX));
  positive("queue_max", config.queue_max);
  positive("look_ahead", config.look_ahead);
  positive("bypass_max", config.bypass_max);
  if (config.deadline_slack_ns < 0)
    problems.push_back(fmt::format("deadline_slack_ns is {}; it must not be negative", config.deadline_slack_ns));
  if (!config.load.load) problems.emplace_back("load has no function");
  if (!(config.load.target > 0))
    problems.push_back(fmt::format("the load target is {}; it must be positive", config.load.target));
  if (!(config.load.floor >= 0 && config.load.floor <= config.load.target))
    problems.push_back(
        fmt::format("the load floor is {}; it must be in [0, {}]", config.load.floor, config.load.target));
  if (!(config.load.target_deadline >= 0 && config.load.target_deadline <= config.load.target))
    problems.push_back(fmt::format("the load target under a deadline is {}; it must be in [0, {}]",
                                   config.load.target_deadline, config.load.target));
  if (!(config.one_off_share >= 0 && config.one_off_share <= 1))
    problems.push_back(fmt::format("one_off_share is {}; it must be in [0, 1]", config.one_off_share));
  return problems;
}

}  // namespace zp
