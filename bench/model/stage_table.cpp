// Prints stages.
#include "bench/model/stage_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace zp::bench {
namespace {

struct Stage {
  std::string name;
  StageTotal total;
};

std::vector<Stage> sorted(const PassTotals& pass) {
  std::vector<Stage> stages;
  for (const auto& [name, total] : pass.stages) stages.push_back({name, total});
  std::ranges::sort(stages, [](const Stage& a, const Stage& b) { return a.total.seconds > b.total.seconds; });
  return stages;
}

double gap_seconds(const PassTotals& pass) {
  double seconds = pass.seconds;
  for (const auto& [name, total] : pass.stages) seconds -= total.seconds;
  return seconds;
}

double bound_seconds(const StageTotal& total, const HardwareProfile& hardware) {
  const double memory = hardware.memory_bandwidth > 0 ? total.bytes / hardware.memory_bandwidth : 0;
  const OperationRates& rates = hardware.achieved_bf16;
  switch (total.kind) {
    case StageKind::kMemory: return memory;
    case StageKind::kDense: return std::max(memory, total.flops / rates.dense);
    case StageKind::kAttention: return std::max(memory, total.flops / rates.attention);
    case StageKind::kExperts: return std::max(memory, total.flops / rates.expert);
  }
  return memory;
}

}  // namespace

std::string stage_text(const PassTotals& pass, const std::optional<HardwareProfile>& hardware) {
  std::string text = fmt::format("  {:<22}{:>10}{:>8}{:>8}{:>10}{:>10}{:>10}\n", "stage", "ms", "share", "calls",
                                 "TFLOP/s", "GB/s", "bound ms");
  const auto share = [&](double seconds) { return pass.seconds > 0 ? 100 * seconds / pass.seconds : 0; };
  double bounds = 0;
  for (const auto& [name, total] : sorted(pass)) {
    const double bound = hardware ? bound_seconds(total, *hardware) : 0;
    bounds += bound;
    text += fmt::format("  {:<22}{:>10.3f}{:>7.1f}%{:>8}{:>10.1f}{:>10.0f}{:>10}\n", name, total.seconds * 1e3,
                        share(total.seconds), total.calls, total.flops / total.seconds * 1e-12,
                        total.bytes / total.seconds * 1e-9, hardware ? fmt::format("{:.3f}", bound * 1e3) : "");
  }
  const double gaps = gap_seconds(pass);
  text += fmt::format("  {:<22}{:>10.3f}{:>7.1f}%\n", "between operations", gaps * 1e3, share(gaps));
  text += fmt::format("  {:<22}{:>10.3f}{:>8}{:>8}{:>10}{:>10}{:>10}\n", "whole", pass.seconds * 1e3, "", "", "", "",
                      hardware ? fmt::format("{:.3f}", bounds * 1e3) : "");
  return text;
}

nlohmann::ordered_json stage_json(const PassTotals& pass, const std::optional<HardwareProfile>& hardware) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::object();
  for (const auto& [name, total] : sorted(pass)) {
    nlohmann::ordered_json& stage = stages[name];
    stage = {{"ms", total.seconds * 1e3}, {"calls", total.calls}, {"flops", total.flops}, {"bytes", total.bytes}};
    if (hardware) stage["bound_ms"] = bound_seconds(total, *hardware) * 1e3;
  }
  stages["between operations"] = {{"ms", gap_seconds(pass) * 1e3}};
  return {{"ms", pass.seconds * 1e3}, {"stages", stages}};
}

}  // namespace zp::bench
