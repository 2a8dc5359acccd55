// `zeroprefill simulate --trace F|--mix paper --model NAME --gpu h200 --ranks N --policy P`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "plan_options.h"
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
  add_plan_options(command, "--ranks", options.plan);
  CLI::Option* trace = command.add_option("--trace", options.trace, "A trace file, or a folder of .jsonl files");
  command.add_option("--mix", options.mix, "A made-up workload: paper, the six-benchmark mix of MoE-Prefill")
      ->check(CLI::IsMember({"paper"}))
      ->excludes(trace);
  command.add_option("--policy", options.policy, fmt::format("{}", fmt::join(policy_names(), ", ")))
      ->capture_default_str();
  command.add_option("--order", options.order, "Of requests that arrive at once")
      ->check(CLI::IsMember({"source", "shuffled"}))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Of the shuffled order")->capture_default_str();
  command.add_option("--arrivals", options.arrivals, "All at once, as a batch, or as the trace has them")
      ->check(CLI::IsMember({"at-once", "trace"}))
      ->capture_default_str();
  command.add_flag("--no-sharing", options.no_sharing, "The same lengths, but no two requests share a token");
  command.add_option("--look-ahead", options.look_ahead, "Waiting requests that one plan looks at")
      ->capture_default_str();
  command.add_option("--share", options.share, "Only this part of the requests, in (0, 1], which share as before")
      ->check(CLI::Range(1e-6, 1.0))
      ->capture_default_str();
  command.add_option("--write-requests", options.write_requests,
                     "Instead of simulating: write the requests to this file, as rows of token ids for `run`");
  command.add_option("--json", options.json,
                     "File for the report as a JSON object; - for standard output instead of text");
  command.add_option("--plot", options.plot, "File for a picture (SVG)");
}

Workload make_workload(const SimulateOptions& options) {
  if (options.trace.empty() && options.mix.empty())
    fail(ErrorCode::kInvalidArgument, "there is nothing to simulate: give --trace FILE or --mix paper");
  if (options.order == "shuffled" && options.arrivals == "trace")
    fail(ErrorCode::kInvalidArgument, "--order shuffled needs --arrivals at-once");
  Workload workload = options.trace.empty() ? paper_mix() : read_trace(options.trace);
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
  const std::vector<std::string> problems = validate(simulation);
  if (!problems.empty()) fail(ErrorCode::kInvalidArgument, "{}", fmt::join(problems, "\n"));
  return simulation;
}

void print_text(const Workload& workload, const SimulationSpec& spec, const CapacityPlan& plan,
                const SimulationReport& r) {
  const auto row = [](const char* name, const std::string& value) { fmt::print("{:<22}{}\n", name, value); };
  row("workload", fmt::format("{}: {} requests, {} tokens", workload.name, r.requests, human_count(r.prompt_tokens)));
  row("policy", fmt::format("{} on {} rank(s), {} blocks kept on each", spec.policy, spec.ranks, spec.pool_blocks));
  row("experts", fmt::format("{}, t_EP {:.2f} ms, steps filled to {:.0f} tokens of {} or {:.2f} ms a layer",
                             to_string(plan.spread.spreading), plan.transfer.seconds() * 1e3,
                             plan.saturation.target.tokens, "typical requests", spec.target_seconds * 1e3));
  row("makespan", fmt::format("{:.2f} s", r.makespan_seconds));
  row("tokens/s", fmt::format("{:.0f}", r.tokens_per_second()));
  row("hit rate", fmt::format("{:.2f} % of {:.2f} % possible", r.hit_rate() * 100, r.hit_rate_bound() * 100));
  row("computed", fmt::format("{} tokens; {} blocks evicted", human_count(r.computed_tokens), r.evictions));
  row("load spread", fmt::format("{:.3f} (busiest over mean)", r.load_spread()));
  row("exposed, idle",
      fmt::format("{:.2f} %, {:.2f} % of the ranks' time", r.exposed_share() * 100, r.idle_share() * 100));
  row("mean latency", fmt::format("{:.2f} s", r.latency_seconds_mean));
}

Json report_json(const Workload& workload, const SimulationSpec& spec, const CapacityPlan& plan,
                 const SimulationReport& r) {
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
  return {{"workload", workload.name},
          {"policy", spec.policy},
          {"requests", r.requests},
          {"prompt_tokens", r.prompt_tokens},
          {"computed_tokens", r.computed_tokens},
          {"hit_tokens", r.hit_tokens},
          {"hit_rate", r.hit_rate()},
          {"hit_rate_bound", r.hit_rate_bound()},
          {"evictions", r.evictions},
          {"experts", to_string(plan.spread.spreading)},
          {"transfer_seconds", plan.transfer.seconds()},
          {"target_seconds", spec.target_seconds},
          {"makespan_seconds", r.makespan_seconds},
          {"tokens_per_second", r.tokens_per_second()},
          {"load_spread", r.load_spread()},
          {"exposed_share", r.exposed_share()},
          {"idle_share", r.idle_share()},
          {"latency_seconds_mean", r.latency_seconds_mean},
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
    const ChosenModel model = choose_model(options->plan.model);
    if (!options->write_requests.empty()) {
      const Workload workload = make_workload(*options);
      write_requests(workload, model.shape.vocabulary, options->write_requests);
      fmt::print("{} requests, {} tokens, the longest {}\n", workload.requests.size(), workload.tokens(),
                 workload.tokens_max());
      return 0;
    }
    const PlanSpec plan_of = plan_spec(options->plan, model.shape);
    const CapacityPlan plan = make_capacity_plan(plan_of);
    if (!plan.problem.empty()) fail(ErrorCode::kOutOfMemory, "{}", plan.problem);
    const SimulationSpec spec = simulation_spec(*options, plan_of, plan);
    const Workload workload = make_workload(*options);
    const SimulationReport report = simulate(spec, workload);
    const std::string json = report_json(workload, spec, plan, report).dump(2) + "\n";
    if (!options->plot.empty())
      write_file(options->plot, plot_svg(report, fmt::format("{}: {}, {} x {}, {}", workload.name, model.name,
                                                             spec.ranks, plan_of.hardware.name, spec.policy)));
    if (options->json == "-")
      fmt::print("{}", json);
    else
      print_text(workload, spec, plan, report);
    if (!options->json.empty() && options->json != "-") write_file(options->json, json);
    return 0;
  };
}

}  // namespace zp::app
