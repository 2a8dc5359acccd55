// Writes run summaries.
#include "summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "note.h"
#include "zp/base/host_info.h"
#include "zp/base/human.h"
#include "zp/schedule/measured_model.h"

namespace zp::app {
namespace {

double per_second(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

// Means over the devices of a synchronous group, the bytes by layer too.
nlohmann::ordered_json group_json(const GroupStats& group) {
  GroupStats::Device sum;
  for (const GroupStats::Device& device : group.devices) {
    sum.sent_bytes += device.sent_bytes;
    sum.received_bytes += device.received_bytes;
    sum.control_bytes += device.control_bytes;
    sum.collective_seconds += device.collective_seconds;
    sum.wait_seconds += device.wait_seconds;
  }
  const auto devices = static_cast<double>(group.devices.size());
  const auto per_layer = [&](uint64_t bytes) { return static_cast<double>(bytes) / devices / group.layers; };
  return {{"strategy", group.strategy},
          {"ranks", group.ranks},
          {"sent_bytes_per_device_and_layer", per_layer(sum.sent_bytes)},
          {"received_bytes_per_device_and_layer", per_layer(sum.received_bytes)},
          {"control_bytes_per_device_and_layer", per_layer(sum.control_bytes)},
          {"collective_seconds_per_device", sum.collective_seconds / devices},
          {"wait_seconds_per_device", sum.wait_seconds / devices}};
}

nlohmann::ordered_json plan_json(const MemoryPlan& plan) {
  nlohmann::ordered_json items = nlohmann::ordered_json::object();
  for (const MemoryItem& item : plan.items) items[item.consumer] = item.bytes;
  return items;
}

nlohmann::ordered_json rank_json(const RankStats& rank) {
  return {{"steps", rank.steps},
          {"steps_by_mode",
           {{"gather_all", rank.steps_by_mode.gather_all},
            {"fetch_routed", rank.steps_by_mode.fetch_routed},
            {"send_activations", rank.steps_by_mode.send_activations}}},
          {"staged_steps", rank.staged_steps},
          {"computed_tokens", rank.computed_tokens},
          {"cached_tokens", rank.cached_tokens},
          {"compute_seconds", rank.compute_seconds},
          {"exposed_seconds", rank.exposed_seconds},
          {"peer_wait_seconds", rank.peer_wait_seconds},
          {"busy_seconds", rank.busy_seconds},
          {"active_seconds", rank.active_seconds},
          {"idle_fraction", rank.idle_fraction()},
          {"allocations", rank.allocations},
          {"planner_wait_seconds", rank.planner_wait_seconds},
          {"load", rank.load},
          {"load_of_target", rank.fill},
          {"exposed_seconds_by_layer", rank.exposed_seconds_by_layer},
          {"failure", rank.failure.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(rank.failure)}};
}

nlohmann::ordered_json work_json(const WorkAmount& work) {
  return {{"flops", work.flops}, {"tokens", work.tokens}, {"milliseconds", work.milliseconds}};
}

nlohmann::ordered_json saturation_json(const SaturationStats& s) {
  return {{"attention_flops_per_second", s.attention_flops_per_second},
          {"dense_flops_per_second", s.dense_flops_per_second},
          {"expert_flops_per_second", s.expert_flops_per_second},
          {"peer_bytes_per_second", s.peer_bytes_per_second},
          {"host_bytes_per_second", s.host_bytes_per_second},
          {"transfer_seconds", s.transfer_seconds},
          {"gamma", s.gamma},
          {"context_tokens", s.context_tokens},
          {"threshold", work_json(s.threshold)},
          {"target", work_json(s.target)},
          {"step_tokens_max", s.step_tokens_max},
          {"recalibrations", s.recalibrations}};
}

// "12.3 MFLOP".
std::string si(double value, const char* unit) {
  constexpr std::array<const char*, 7> kPrefixes = {"", "k", "M", "G", "T", "P", "E"};
  size_t i = 0;
  for (; value >= 1000 && i + 1 < kPrefixes.size(); ++i) value /= 1000;
  return fmt::format("{:.3g} {}{}", value, kPrefixes[i], unit);
}

std::string in_all_units(const WorkAmount& work) {
  // A short time of a layer is less than a token.
  const std::string tokens = work.tokens < 10 ? fmt::format("{:.2g}", work.tokens) : fmt::format("{:.0f}", work.tokens);
  return fmt::format("{} = {} tokens = {:.3g} ms", si(work.flops, "FLOP"), tokens, work.milliseconds);
}

constexpr size_t kRanksShown = 16;

void print_rank_table(const EngineStats& stats) {
  note("rank  steps  load/target  reused  exposed  peer wait  planner wait\n");
  for (size_t r = 0; r < std::min(stats.ranks.size(), kRanksShown); ++r) {
    const RankStats& rank = stats.ranks[r];
    const auto share = [](double part, double whole) { return whole > 0 ? 100 * part / whole : 0; };
    const auto tokens = static_cast<double>(rank.cached_tokens + rank.computed_tokens);
    note("{:>4} {:>6} {:>12.2f} {:>5.1f} % {:>6.1f} % {:>8.1f} % {:>11.3f} s\n", r, rank.steps, rank.fill,
         share(static_cast<double>(rank.cached_tokens), tokens), share(rank.exposed_seconds, rank.compute_seconds),
         share(rank.peer_wait_seconds, rank.compute_seconds), rank.planner_wait_seconds);
  }
  if (stats.ranks.size() > kRanksShown) note("...   {} more in --summary\n", stats.ranks.size() - kRanksShown);
}

void print_group(const GroupStats& stats) {
  const nlohmann::ordered_json group = group_json(stats);
  note("{} on {} ranks: {:.0f} bytes sent and {:.0f} received a device and layer; {:.2f} s in collectives\n",
       stats.strategy, stats.ranks, group["sent_bytes_per_device_and_layer"].get<double>(),
       group["received_bytes_per_device_and_layer"].get<double>(),
       group["collective_seconds_per_device"].get<double>());
}

void print_ranks(const EngineStats& stats) {
  note("{} experts on {} ranks; compute stood still for experts {:.1f} % of its time ({:.3f} s)", stats.experts,
       stats.ranks.size(), 100 * stats.exposed_fraction(), stats.exposed_seconds);
  if (stats.peer_wait_seconds > 0) note(", {:.3f} s of it for other ranks", stats.peer_wait_seconds);
  StepModeCounts modes;
  for (const RankStats& rank : stats.ranks) {
    modes.fetch_routed += rank.steps_by_mode.fetch_routed;
    modes.send_activations += rank.steps_by_mode.send_activations;
  }
  if (modes.fetch_routed > 0) note("; {} steps fetched only experts that were needed", modes.fetch_routed);
  if (modes.send_activations > 0) note("; {} steps sent activations", modes.send_activations);
  note("\n");
  print_rank_table(stats);
  if (stats.saturation && stats.saturation->recalibrations > 0)
    note("rates, gamma or lengths moved {} times: gamma is {:.2f}, steps are filled to {} of a layer\n",
         stats.saturation->recalibrations, stats.saturation->gamma, in_all_units(stats.saturation->target));
  for (size_t r = 0; r < stats.ranks.size(); ++r)
    if (!stats.ranks[r].failure.empty()) note("{}\n", stats.ranks[r].failure);
}

}  // namespace

nlohmann::ordered_json to_json(const RunSummary& s) {
  nlohmann::ordered_json errors = nlohmann::ordered_json::object();
  for (const auto& [code, count] : s.metrics.failed_by_code) errors[std::string(to_string(code))] = count;
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const RankStats& rank : s.stats.ranks) ranks.push_back(rank_json(rank));
  nlohmann::ordered_json json = {
      {"model", fmt::format("{}{}", s.stats.random_weights ? kRandomPrefix : "", s.stats.model)},
      {"layers", s.stats.layers},
      {"dtype", s.stats.dtype},
      {"strategy", s.stats.strategy},
      {"version", s.version},
      {"items", s.metrics.rows},
      {"answered", s.metrics.answered},
      {"errors", s.metrics.failed},
      {"errors_by_code", errors},
      {"lost", s.metrics.lost},
      {"prompt_tokens", s.stats.prompt_tokens},
      {"computed_tokens", s.stats.computed_tokens},
      {"cached_tokens", s.stats.cached_tokens},
      {"steps", s.stats.steps},
      {"wall_seconds", s.wall_seconds},
      {"compute_seconds", s.stats.compute_seconds},
      {"exposed_seconds", s.stats.exposed_seconds},
      {"exposed_fraction", s.stats.exposed_fraction()},
      {"peer_wait_seconds", s.stats.peer_wait_seconds},
      {"items_per_s", per_second(s.metrics.rows, s.wall_seconds)},
      {"tokens_per_s", per_second(s.stats.prompt_tokens, s.wall_seconds)},
      {"computed_tokens_per_s", per_second(s.stats.computed_tokens, s.wall_seconds)},
      {"labelled", s.metrics.scored},
      {"accuracy", or_null(s.metrics.accuracy)},
      {"accuracy_interval_95", {s.metrics.accuracy_95.low, s.metrics.accuracy_95.high}},
      {"majority_accuracy", or_null(s.metrics.majority_accuracy)},
      {"macro_f1", or_null(s.metrics.macro_f1)},
      {"load_seconds", s.stats.load_seconds},
      {"weight_load_seconds", s.stats.weight_load_seconds},
      {"weight_bytes", s.stats.weight_bytes},
      {"weight_load_bytes_per_s", s.stats.weight_load_rate()},
      {"peak_memory_bytes", peak_resident_bytes()},
      {"device", s.stats.device},
      {"operations", s.stats.operations},
      {"experts", s.stats.experts},
      {"load_unit", s.stats.load_unit},
      {"saturation", s.stats.saturation ? saturation_json(*s.stats.saturation) : nlohmann::ordered_json(nullptr)},
      {"ranks", ranks},
      {"memory_plan_bytes",
       {{"each_rank", plan_json(s.stats.memory_plan.rank)}, {"host", plan_json(s.stats.memory_plan.host)}}}};
  if (s.stats.routes)
    json["routes"] = {{"asked_skew", s.stats.routes->asked_skew},
                      {"skew_mean", finite_or_null(s.stats.routes->skew_mean)},
                      {"skew_max", finite_or_null(s.stats.routes->skew_max)},
                      {"tokens", s.stats.routes->tokens}};
  if (s.stats.group) {
    // Its time in collectives is that of the group.
    for (const char* of_asyncep : {"exposed_seconds", "exposed_fraction", "peer_wait_seconds", "ranks"})
      json[of_asyncep] = nullptr;
    json["group"] = group_json(*s.stats.group);
  }
  return json;
}

void write_summary(const RunSummary& summary, OutputFile& file) {
  file.write_lines(to_json(summary).dump(2) + "\n");
  file.close();
}

void print_saturation(const EngineStats& stats, const std::string& calibration) {
  if (!stats.saturation) return;
  const SaturationStats& s = *stats.saturation;
  const std::optional<CalibrationSource>& source = stats.calibration;
  const MeasuredModel of = source ? MeasuredModel{source->model, source->dtype} : MeasuredModel{};
  note("{}: attention {}, dense products {}, experts {}",
       source ? fmt::format("read from {}, measured with {}", calibration, to_string(of)) : "measured",
       si(s.attention_flops_per_second, "FLOP/s"), si(s.dense_flops_per_second, "FLOP/s"),
       si(s.expert_flops_per_second, "FLOP/s"));
  if (s.peer_bytes_per_second > 0) note("; from other ranks {}", si(s.peer_bytes_per_second, "B/s"));
  if (s.host_bytes_per_second > 0) note("; from host memory {}", si(s.host_bytes_per_second, "B/s"));
  note("\n");
  if (source)
    if (const std::string warning = other_model_warning(calibration, of, {stats.model, stats.dtype}); !warning.empty())
      note("{}\n", warning);
  if (s.transfer_seconds > 0)
    note("t_EP {:.3g} ms, gamma {:.2f}: T = {} of a layer (requests of {:.0f} tokens)\n", s.transfer_seconds * 1e3,
         s.gamma, in_all_units(s.threshold), s.context_tokens);
  note("steps are filled to {} of a layer\n", in_all_units(s.target));
  if (s.target.tokens < 1) note("that is less than a token, so every step holds one request\n");
  if (s.target.tokens > static_cast<double>(s.step_tokens_max))
    note("but hold at most {} tokens, too few to hide all transfers; --max-step-tokens takes more memory for more\n",
         s.step_tokens_max);
}

void print_summary(const RunSummary& s) {
  note("{} rows in {:.2f} s ({:.0f} rows/s); loaded in {:.2f} s\n", s.metrics.rows, s.wall_seconds,
       per_second(s.metrics.rows, s.wall_seconds), s.stats.load_seconds);
  if (s.stats.weight_load_seconds > 0)
    note("weights: {} in {:.2f} s, {:.2f} GB/s\n", human_bytes(s.stats.weight_bytes), s.stats.weight_load_seconds,
         s.stats.weight_load_rate() * 1e-9);
  const double reused = s.stats.prompt_tokens > 0 ? 100.0 * static_cast<double>(s.stats.cached_tokens) /
                                                        static_cast<double>(s.stats.prompt_tokens)
                                                  : 0;
  note("{} prompt tokens, {:.1f} % reused, {:.0f} tokens/s; {} on {}\n", s.stats.prompt_tokens, reused,
       per_second(s.stats.prompt_tokens, s.wall_seconds), s.stats.operations, s.stats.device);
  note("memory: {} planned, {} at the peak\n", human_bytes(s.stats.memory_plan.total_bytes()),
       human_bytes(peak_resident_bytes()));
  if (s.stats.group)
    print_group(*s.stats.group);
  else if (s.stats.ranks.size() > 1 || s.stats.experts != "resident")
    print_ranks(s.stats);
  if (s.stats.routes && s.stats.routes->tokens > 0)
    note(
        "random routes: the commonest expert got {:.2f} times the tokens of the rarest, mean of the layers (asked: "
        "{:g})\n",
        s.stats.routes->skew_mean, s.stats.routes->asked_skew);
  if (s.metrics.accuracy)
    note("accuracy {:.1f} % [{:.1f}, {:.1f}], majority class {:.1f} %, macro F1 {:.3f} ({} labelled)\n",
         100 * *s.metrics.accuracy, 100 * s.metrics.accuracy_95.low, 100 * s.metrics.accuracy_95.high,
         100 * s.metrics.majority_accuracy.value_or(0), s.metrics.macro_f1.value_or(0), s.metrics.scored);
}

void print_counts(const TaskMetricsSummary& metrics) {
  std::string codes;
  for (const auto& [code, count] : metrics.failed_by_code)
    codes += fmt::format("{}{} {}", codes.empty() ? " (" : ", ", to_string(code), count);
  note("{} rows: {} answered, {} failed{}{}\n", metrics.rows, metrics.answered, metrics.failed, codes,
       codes.empty() ? "" : ")");
}

}  // namespace zp::app
