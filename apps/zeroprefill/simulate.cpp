// `zeroprefill simulate --trace F|--mix paper --model NAME --gpu h200 --ranks N --policy P`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "outputs.h"
#include "plan_options.h"
#include "whole_number.h"
#include "zp/base/error.h"
#include "zp/base/human.h"
#include "zp/cache/block_hash.h"
#include "zp/shape/flops.h"
#include "zp/simulate/paper_mix.h"
#include "zp/simulate/plot.h"
#include "zp/simulate/request_file.h"
#include "zp/simulate/simulator.h"
#include "zp/simulate/trace_file.h"

namespace zp::app {
namespace {

using Json = nlohmann::ordered_json;

struct SimulateOptions {
  PlanOptions plan;
  std::string trace;
  std::string mix;
  std::string policy = "prefix-saturation";
  std::string order = "source";
  uint64_t seed = 1;
  std::string arrivals = "at-once";
  bool no_sharing = false;
  int32_t look_ahead = 32'768;
  double share = 1;
  std::string write_requests;
  std::string json;
  std::string plot;
};

void add_options(CLI::App& command, SimulateOptions& options) {
  add_plan_options(command,
                   {.devices = "--ranks",
                    .default_step_tokens = fmt::format(
                        "as the profile says, 16384 on an h200, with which docs/notes/policies.md was made. `run` on a "
                        "GPU fills them to {}, if these fit: say so here to simulate that",
                        kGpuStepTokens)},
                   options.plan);
  CLI::Option* trace = command.add_option("--trace", options.trace, "A trace file, or a folder of .jsonl files");
  command.add_option("--mix", options.mix, "A made-up workload: paper, the six-benchmark mix of MoE-Prefill")
      ->check(CLI::IsMember({"paper"}))
      ->excludes(trace);
  command.add_option("--policy", options.policy, fmt::format("{}", fmt::join(policy_names(), ", ")))
      ->capture_default_str();
  command.add_option("--order", options.order, "Of requests that arrive at once")
      ->check(CLI::IsMember({"source", "shuffled"}))
      ->capture_default_str();
  add_whole_number(command, "--seed", options.seed, "Of the shuffled order");
  command.add_option("--arrivals", options.arrivals, "All at once, as a batch, or as the trace has them")
      ->check(CLI::IsMember({"at-once", "trace"}))
      ->capture_default_str();
  command.add_flag("--no-sharing", options.no_sharing, "The same lengths, but no two requests share a token");
  add_whole_number(command, "--look-ahead", options.look_ahead, "Waiting requests that one plan looks at");
  command.add_option("--share", options.share, "Only this part of the requests, in (0, 1], which share as before")
      ->check(CLI::Range(1e-6, 1.0))
      ->capture_default_str();
  command.add_option("--write-requests", options.write_requests,
                     "Instead of simulating: write the requests to this file, as rows of token ids for `run`");
  command.add_option("--json", options.json,
                     "File for the report as a JSON object; - for standard output instead of text");
  command.add_option("--plot", options.plot, "File for a picture (SVG)");
}

CommandFiles files_of(const SimulateOptions& options) {
  return {.outputs = {{"--json", options.json, true},
                      {"--plot", options.plot},
                      {"--write-requests", options.write_requests}},
          .inputs = {{"--trace", options.trace},
                     {"--model", options.plan.model},
                     {"--hardware", options.plan.hardware},
                     {"--calibration", options.plan.calibration}}};
}

Workload make_workload(const SimulateOptions& options) {
  if (options.trace.empty() && options.mix.empty())
    fail(ErrorCode::kInvalidArgument, "there is nothing to simulate: give --trace FILE or --mix paper");
  if (options.order == "shuffled" && options.arrivals == "trace")
    fail(ErrorCode::kInvalidArgument, "--order shuffled needs --arrivals at-once");
  Workload workload = options.trace.empty() ? paper_mix() : read_trace(options.trace);
  if (options.arrivals == "trace" && !workload.timed)
    fail(ErrorCode::kInvalidArgument,
         "--arrivals is trace, but {} says not when requests arrive; they can only arrive at-once", workload.name);
  if (options.arrivals == "at-once") arrive_at_once(workload);
  if (!(options.share > 0 && options.share <= 1))
    fail(ErrorCode::kInvalidArgument, "--share is {}; it must lie in (0, 1]", options.share);
  if (options.share < 1) workload = take_share(workload, options.share);
  if (options.order == "shuffled") shuffle(workload, options.seed);
  if (options.no_sharing) remove_sharing(workload);
  return workload;
}

SimulationSpec simulation_spec(const SimulateOptions& options, const PlanSpec& spec, const CapacityPlan& plan) {
  const uint64_t kv_bytes = [&] {
    for (const PlanItem& item : plan.rank)
      if (item.consumer == kKeptItem) return item.bytes;
    return uint64_t{0};
  }();
  const auto block_bytes = static_cast<uint64_t>(kv_bytes_per_token(spec.shape, 2) * kBlockTokens);
  const auto layer_bytes = static_cast<double>(layer_expert_bytes(spec.shape, plan.expert_element_bytes));
  SimulationSpec simulation{
      .shape = spec.shape,
      .step = {.layers = spec.shape.layers,
               .streamed_layers = plan.spread.streamed_layers(),
               .transfer_seconds = plan.transfer.seconds(),
               .rates = plan.rates,
               .expert_read_seconds = layer_bytes / spec.hardware.memory_bandwidth,
               .slots = spec.slots,
               .step_seconds = spec.step_seconds,
               .request_seconds = static_cast<double>(head_flops(spec.shape)) / plan.rates.dense},
      .policy = options.policy,
      .ranks = spec.gpus,
      .pool_blocks = static_cast<int32_t>(std::min<uint64_t>(kv_bytes / block_bytes, INT32_MAX)),
      .target_seconds = plan.saturation.target.seconds,
      .step_tokens_max = 2 * static_cast<int64_t>(plan.saturation.target.tokens) + spec.context_tokens,
      .look_ahead = options.look_ahead};
  constexpr double kTargetTokensMax = 1 << 30;
  if (!(plan.saturation.target.tokens <= kTargetTokensMax))
    fail(ErrorCode::kInvalidArgument,
         "steps would be filled to {:g} tokens, more than {:g}: a link is too slow for these rates",
         plan.saturation.target.tokens, kTargetTokensMax);
  require_none(options.plan, validate(simulation));
  return simulation;
}

// What a report is of.
struct Simulated {
  const std::string& model;
  const std::string& calibration;  // the file whose rates and links stand for the profile's; empty: none
  const PlanSpec& plan_of;
  const CapacityPlan& plan;
  const SimulationSpec& spec;
  const Workload& workload;
};

void print_text(const Simulated& simulated, const SimulationReport& r) {
  const auto& [model, calibration, plan_of, plan, spec, workload] = simulated;
  const auto row = [](const char* name, const std::string& value) { fmt::print("{:<22}{}\n", name, value); };
  row("simulated", fmt::format("{}, experts in {}, on {} x {}{}, policy {}", model, to_string(plan_of.expert_type),
                               spec.ranks, plan_of.hardware.name,
                               calibration.empty() ? "" : " with rates and links from " + calibration, spec.policy));
  row("workload", fmt::format("{}: {} requests, {} tokens", workload.name, r.requests, human_count(r.prompt_tokens)));
  row("kept", fmt::format("{} blocks on each rank", spec.pool_blocks));
  row("experts", fmt::format("{}, t_EP {:.2f} ms", to_string(plan.spread.spreading), plan.transfer.seconds() * 1e3));
  row("steps", fmt::format("filled to {:.0f} tokens of typical requests, {:.2f} ms a layer{}",
                           plan.saturation.target.tokens, spec.target_seconds * 1e3,
                           plan.saturation.target.tokens < kGpuStepTokens
                               ? fmt::format("; `run` on a GPU fills them to {}: --step-tokens {}", kGpuStepTokens,
                                             kGpuStepTokens)
                               : ""));
  row("makespan", fmt::format("{:.2f} s", r.makespan_seconds));
  row("tokens/s", fmt::format("{:.0f}", r.tokens_per_second()));
  row("hit rate", fmt::format("{:.2f} % of {:.2f} % possible", r.hit_rate() * 100, r.hit_rate_bound() * 100));
  row("computed", fmt::format("{} tokens; {} blocks evicted", human_count(r.computed_tokens), r.evictions));
  row("load spread", fmt::format("{:.3f} (busiest over mean)", r.load_spread()));
  row("exposed, idle",
      fmt::format("{:.2f} %, {:.2f} % of the ranks' time", r.exposed_share() * 100, r.idle_share() * 100));
  const LatencyReport& l = r.latency_seconds;
  row("latency", fmt::format("mean {:.2f} s, median {:.2f}, 90 % within {:.2f}, 99 % within {:.2f}, longest {:.2f}",
                             l.mean, l.p50, l.p90, l.p99, l.max));
}

Json report_json(const Simulated& simulated, const SimulationReport& r) {
  const auto& [model, calibration, plan_of, plan, spec, workload] = simulated;
  Json ranks = Json::array();
  for (const RankReport& rank : r.ranks)
    ranks.push_back({{"steps", rank.steps},
                     {"requests", rank.requests},
                     {"computed_tokens", rank.computed_tokens},
                     {"hit_tokens", rank.hit_tokens},
                     {"compute_seconds", rank.compute_seconds},
                     {"exposed_seconds", rank.exposed_seconds},
                     {"idle_seconds", rank.idle_seconds}});
  Json filled = Json::object();
  for (size_t i = 0; i < r.filled_by.size(); ++i)
    filled[std::string(to_string(static_cast<StopReason>(i)))] = r.filled_by[i];
  return {{"model", model},
          {"expert_type", to_string(plan_of.expert_type)},
          {"gpu", plan_of.hardware.name},
          {"gpus", spec.ranks},
          {"calibration", calibration.empty() ? Json(nullptr) : Json(calibration)},
          {"policy", spec.policy},
          {"workload", workload.name},
          {"requests", r.requests},
          {"prompt_tokens", r.prompt_tokens},
          {"computed_tokens", r.computed_tokens},
          {"hit_tokens", r.hit_tokens},
          {"hit_rate", r.hit_rate()},
          {"hit_rate_bound", r.hit_rate_bound()},
          {"evictions", r.evictions},
          {"experts", to_string(plan.spread.spreading)},
          {"transfer_seconds", plan.transfer.seconds()},
          {"target_tokens", plan.saturation.target.tokens},
          {"target_seconds", spec.target_seconds},
          {"makespan_seconds", r.makespan_seconds},
          {"tokens_per_second", r.tokens_per_second()},
          {"load_spread", r.load_spread()},
          {"exposed_share", r.exposed_share()},
          {"idle_share", r.idle_share()},
          {"latency_seconds_mean", r.latency_seconds.mean},
          {"latency_seconds_p50", r.latency_seconds.p50},
          {"latency_seconds_p90", r.latency_seconds.p90},
          {"latency_seconds_p99", r.latency_seconds.p99},
          {"latency_seconds_max", r.latency_seconds.max},
          {"steps_filled_by", filled},
          {"ranks", ranks}};
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) fail(ErrorCode::kIo, "{} cannot be written", path);
}

}  // namespace

Command add_simulate(CLI::App& app) {
  const auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Run a workload through the scheduler in virtual time, on modelled hardware, under any policy");
  add_options(*command, *options);
  return [options] {
    require_safe_outputs(files_of(*options));
    if (!options->write_requests.empty() && (!options->json.empty() || !options->plot.empty()))
      fail(ErrorCode::kInvalidArgument, "with --write-requests nothing is simulated, so {} cannot be had",
           options->json.empty() ? "--plot" : "--json");
    const ChosenModel model = choose_model(options->plan.model);
    if (!options->write_requests.empty()) {
      const Workload workload = make_workload(*options);
      write_requests(workload, model.shape.vocabulary, options->write_requests);
      fmt::print("{} requests, {} tokens, the longest {}\n", workload.requests.size(), workload.tokens(),
                 workload.tokens_max());
      return 0;
    }
    PlanSpec plan_of = plan_spec(options->plan, model);
    if (!plan_of.step_tokens) plan_of.step_tokens = plan_of.hardware.efficient_step_tokens;
    const CapacityPlan plan = make_capacity_plan(plan_of);
    if (!plan.problem.empty()) fail(ErrorCode::kOutOfMemory, "{}", plan.problem);
    const SimulationSpec spec = simulation_spec(*options, plan_of, plan);
    const Workload workload = make_workload(*options);
    const SimulationReport report = simulate(spec, workload);
    const Simulated simulated{model.name, options->plan.calibration, plan_of, plan, spec, workload};
    const std::string json = report_json(simulated, report).dump(2) + "\n";
    if (!options->plot.empty())
      write_file(options->plot, plot_svg(report, fmt::format("{}: {}, {} x {}, {}", workload.name, model.name,
                                                             spec.ranks, plan_of.hardware.name, spec.policy)));
    if (options->json == "-")
      fmt::print("{}", json);
    else
      print_text(simulated, report);
    if (!options->json.empty() && options->json != "-") write_file(options->json, json);
    return 0;
  };
}

}  // namespace zp::app
