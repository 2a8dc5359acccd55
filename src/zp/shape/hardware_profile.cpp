// Checks that a profile's numbers make sense.
#include "zp/shape/hardware_profile.h"

#include <fmt/format.h>

#include <cmath>

namespace zp {

std::vector<std::string> validate(const HardwareProfile& profile) {
  std::vector<std::string> problems;
  const auto positive = [&](const char* name, double value) {
    if (!(value > 0 && std::isfinite(value)))
      problems.push_back(fmt::format("{} is {}; it must be positive", name, value));
  };
  const auto not_negative = [&](const char* name, double value) {
    if (!(value >= 0 && std::isfinite(value)))
      problems.push_back(fmt::format("{} is {}; it must not be negative", name, value));
  };
  positive("memory_bytes", static_cast<double>(profile.memory_bytes));
  positive("memory_bandwidth", profile.memory_bandwidth);
  not_negative("peer_bandwidth", profile.peer_bandwidth);
  positive("host_bandwidth", profile.host_bandwidth);
  positive("peak_bf16", profile.peak_bf16);
  not_negative("peak_fp8", profile.peak_fp8);
  positive("achieved_bf16.attention", profile.achieved_bf16.attention);
  positive("achieved_bf16.dense", profile.achieved_bf16.dense);
  positive("achieved_bf16.expert", profile.achieved_bf16.expert);
  not_negative("achieved_fp8_expert", profile.achieved_fp8_expert);
  positive("efficient_step_tokens", static_cast<double>(profile.efficient_step_tokens));
  const auto below_peak = [&](const char* name, double rate, double peak) {
    if (rate > peak) problems.push_back(fmt::format("{} is {:.4g}, above the peak of {:.4g}", name, rate, peak));
  };
  below_peak("achieved_bf16.attention", profile.achieved_bf16.attention, profile.peak_bf16);
  below_peak("achieved_bf16.dense", profile.achieved_bf16.dense, profile.peak_bf16);
  below_peak("achieved_bf16.expert", profile.achieved_bf16.expert, profile.peak_bf16);
  below_peak("achieved_fp8_expert", profile.achieved_fp8_expert, profile.peak_fp8);
  if (profile.peak_fp8 > 0 && profile.achieved_fp8_expert <= 0)
    problems.emplace_back("it has fp8, but achieved_fp8_expert is not given");
  return problems;
}

}  // namespace zp
