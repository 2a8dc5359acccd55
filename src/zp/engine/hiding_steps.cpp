// T from expected rates.
#include "zp/engine/hiding_steps.h"

#include <algorithm>
#include <cmath>

#include "zp/base/math.h"
#include "zp/engine/rank_measure.h"

namespace zp {
namespace {

// The h200 of data/hardware.yaml. At the rates that whole models reach, T is smaller.
constexpr MeasuredRank kCudaRank{.rates = {.attention = 634e12, .dense = 790e12, .expert = 613e12},
                                 .links = {.peer = 391e9, .host = 55.2e9}};
// A core's products of experts (docs/notes/cpu_ops.md), and what copies within the host's memory reach at least.
constexpr double kCoreRate = 3.4e11;
constexpr double kCpuCopyRate = 1e10;
// Gamma follows exposed time; the plan cannot.
constexpr double kGammaMargin = 1.5;

}  // namespace

MeasuredRank expected_rank(const EngineConfig& config, const EngineSetup& setup) {
  if (setup.known) return setup.known->measured;
  const DeviceSpec& device = setup.ranks.front().device;
  if (device.kind == DeviceKind::kCuda) return kCudaRank;
  const double rate = config.paced_flops_per_second > 0 ? config.paced_flops_per_second : device.threads * kCoreRate;
  const auto link_rate = [](const LinkConfig& link) {
    return link.bytes_per_second > 0 ? std::min(static_cast<double>(link.bytes_per_second), kCpuCopyRate)
                                     : kCpuCopyRate;
  };
  return {.rates = {.attention = rate, .dense = rate, .expert = rate},
          .links = {.peer = link_rate(config.experts.peer_link), .host = link_rate(config.experts.host_link)}};
}

int64_t hiding_step_tokens(const EngineConfig& config, const ModelShape& shape, const EngineSetup& setup) {
  const bool fixed = config.max_step_tokens > 0 || config.target.tokens || config.target.milliseconds;
  if (fixed || setup.placement.streamed_layers().empty()) return 0;
  const MeasuredRank expected = expected_rank(config, setup);
  const double gamma = config.target.gamma;
  const Saturation needed =
      saturation(CostModel(shape),
                 {.transfer_seconds =
                      transfer_of(setup.placement, setup.blob_bytes, expected.links, setup.streaming.window).seconds(),
                  .gamma = config.target.adapt ? std::clamp(kGammaMargin * gamma, gamma, kGammaMax) : gamma,
                  .rates = expected.rates,
                  .context_tokens = setup.load.context_tokens});
  const double tokens = std::min(std::ceil(needed.threshold.tokens), static_cast<double>(kHidingTokensMax));
  return std::min(round_up(static_cast<int64_t>(tokens), *config.chunk_tokens), kHidingTokensMax);
}

}  // namespace zp
