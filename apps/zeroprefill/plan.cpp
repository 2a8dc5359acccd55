// `zeroprefill plan --model DIR|NAME --gpu h200 --gpus N`.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "option_words.h"
#include "plan_options.h"
#include "zp/base/human.h"

namespace zp::app {
namespace {

struct PlanCommandOptions {
  PlanOptions plan;
  bool json = false;
};

void row(std::string_view name, const std::string& value) { fmt::print("{:<24}{}\n", name, value); }

std::string milliseconds(double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); }

std::string bytes(double value) { return human_bytes(static_cast<uint64_t>(value)); }

std::string work(const LayerWork& w) {
  return fmt::format("{:.2f} TFLOP = {:.0f} tokens = {}", w.flops * 1e-12, w.tokens, milliseconds(w.seconds));
}

void print_memory(const PlanSpec& spec, const CapacityPlan& plan) {
  fmt::print("\nmemory of each device\n");
  for (const PlanItem& item : plan.rank) fmt::print("  {:<22}{:>12}\n", item.consumer, human_bytes(item.bytes));
  fmt::print("  {:<22}{:>12} of {}\n", "total", human_bytes(plan.rank_bytes()), human_bytes(plan.rank_limit));
  if (plan.host.empty()) return;
  fmt::print("host memory, pinned, for all\n");
  for (const PlanItem& item : plan.host)
    fmt::print("  {:<22}{:>12}{}\n", item.consumer, human_bytes(item.bytes),
               spec.host_bytes ? " of " + human_bytes(*spec.host_bytes) : "");
}

// Where a target is from.
std::string why_target(const PlanSpec& spec, const CapacityPlan& plan) {
  if (plan.saturation.threshold.seconds >= plan.saturation.target.seconds) return "T";
  if (spec.step_tokens) return "--step-tokens";
  if (plan.step_tokens == kGpuStepTokens) return "as `run` on a GPU";
  return fmt::format("as `run` on a GPU: {} halved until they fit", kGpuStepTokens);
}

void print_saturation(const PlanSpec& spec, const CapacityPlan& plan) {
  const ExpertSpreading experts = plan.spread.spreading;
  fmt::print("\nasyncep, experts {}: {} of {} layers are streamed\n", to_string(experts), plan.spread.streamed_layers(),
             spec.shape.layers);
  const std::string why =
      why_other_experts(to_string(spec.experts.value_or(experts)), to_string(experts), {.ranks = spec.gpus});
  if (!why.empty()) fmt::print("{}\n", why);
  row("t_EP by peer link", milliseconds(plan.transfer.peer_seconds));
  row("t_EP by host link",
      fmt::format("{}, the mean of {} layers", milliseconds(plan.transfer.host_seconds), spec.window));
  row("F", fmt::format("{:.0f} TFLOP/s ({})", plan.saturation.rate * 1e-12,
                       spec.rate == ThresholdRate::kPeak ? "peak" : "achieved"));
  row("T = t_EP x F x gamma", fmt::format("{} a layer", work(plan.saturation.threshold)));
  row("target of a step", fmt::format("{} ({})", work(plan.saturation.target), why_target(spec, plan)));
  const PlanPrediction& p = plan.prediction;
  row("a step", fmt::format("{}, {} of it exposed", milliseconds(p.step_seconds), milliseconds(p.exposed_seconds)));
  row("expected", fmt::format("{:.0f} tokens/s on {} device(s), at {} tokens a request, nothing reused",
                              p.tokens_per_second, spec.gpus, spec.context_tokens));
  row("bound by", fmt::format("{} ({:.0f} % of a layer's time)", p.bound, p.bound_share * 100));
}

// Of a device, as the other strategies have them.
uint64_t weight_bytes(const CapacityPlan& plan) {
  uint64_t bytes = plan.spread.rank_bytes();
  for (const PlanItem& item : plan.rank)
    if (item.consumer == kReplicatedItem) bytes += item.bytes;
  return bytes;
}

void print_strategies(const PlanSpec& spec, const CapacityPlan& plan) {
  fmt::print("\n{:<10}{:>12}{:>14}{:>14}{:>12}  {}\n", "strategy", "weights", "bytes moved", "in Table 1", "tokens/s",
             "");
  if (plan.problem.empty())
    fmt::print("{:<10}{:>12}{:>14}{:>14}{:>12.0f}  behind compute; {} more by each host link\n", "asyncep",
               human_bytes(weight_bytes(plan)), bytes(plan.traffic.moved_bytes), "0 on path",
               plan.prediction.tokens_per_second, bytes(plan.host_layer_bytes));
  else
    fmt::print("{:<10}{:>52}  {}\n", "asyncep", "", plan.problem);
  for (const StrategyReport& s : plan.others)
    fmt::print("{:<10}{:>12}{:>14}{:>14}{:>12}  {}\n", s.name, human_bytes(s.weight_bytes),
               bytes(s.traffic.moved_bytes), bytes(s.traffic.table_bytes),
               s.impossible.empty() ? fmt::format("{:.0f}", s.tokens_per_second) : "-", s.impossible);
  fmt::print(
      "Bytes are a device's, one way, a layer (PP+PP: a stage's, a pass). Speeds of the others are upper bounds: "
      "perfect\n"
      "balance, no latency. Table 1 counts both directions of some collectives: docs/notes/baselines.md.\n");
  if (spec.gpus == 1) fmt::print("On one device the strategies are one.\n");
}

void print_text(const ChosenModel& model, const std::string& calibration, const PlanSpec& spec,
                const CapacityPlan& plan) {
  row("model", fmt::format("{} ({})", model.name, model.source));
  if (!model.planned_only.empty()) row("only planned for", model.planned_only);
  row("hardware", fmt::format("{} x {}, experts in {}", spec.gpus, spec.hardware.name, to_string(spec.expert_type)));
  if (!calibration.empty()) row("rates and links", "from " + calibration);
  print_memory(spec, plan);
  if (plan.problem.empty())
    print_saturation(spec, plan);
  else
    fmt::print("\nasyncep cannot run: {}\n", plan.problem);
  print_strategies(spec, plan);
}

using Json = nlohmann::ordered_json;

Json work_json(const LayerWork& w) { return {{"flops", w.flops}, {"tokens", w.tokens}, {"seconds", w.seconds}}; }

Json memory_json(const std::vector<PlanItem>& items) {
  Json json = Json::object();
  for (const PlanItem& item : items) json[std::string(item.consumer)] = item.bytes;
  return json;
}

Json asyncep_json(const PlanSpec& spec, const CapacityPlan& plan) {
  if (!plan.problem.empty()) return {{"problem", plan.problem}};
  const PlanPrediction& p = plan.prediction;
  return {{"experts", to_string(plan.spread.spreading)},
          {"streamed_layers", plan.spread.streamed_layers()},
          {"peer_bytes_per_layer", plan.traffic.moved_bytes},
          {"host_bytes_per_layer", plan.host_layer_bytes},
          {"t_ep_seconds", {{"peer", plan.transfer.peer_seconds}, {"host", plan.transfer.host_seconds}}},
          {"rate_flops", plan.saturation.rate},
          {"gamma", spec.gamma},
          {"threshold", work_json(plan.saturation.threshold)},
          {"target", work_json(plan.saturation.target)},
          {"step_tokens", plan.step_tokens},
          {"step_seconds", p.step_seconds},
          {"exposed_seconds", p.exposed_seconds},
          {"tokens_per_second", p.tokens_per_second},
          {"bound", p.bound},
          {"bound_share", p.bound_share}};
}

void print_json(const ChosenModel& model, const std::string& calibration, const PlanSpec& spec,
                const CapacityPlan& plan) {
  Json others = Json::array();
  for (const StrategyReport& s : plan.others) {
    Json entry = {{"strategy", s.name},
                  {"weight_bytes", s.weight_bytes},
                  {"moved_bytes", s.traffic.moved_bytes},
                  {"table_1_bytes", s.traffic.table_bytes}};
    if (s.impossible.empty())
      entry["tokens_per_second"] = s.tokens_per_second;
    else
      entry["impossible"] = s.impossible;
    others.push_back(std::move(entry));
  }
  const Json json = {{"model", model.name},
                     {"source", model.source},
                     {"planned_only", model.planned_only},
                     {"gpu", spec.hardware.name},
                     {"gpus", spec.gpus},
                     {"calibration", calibration.empty() ? Json(nullptr) : Json(calibration)},
                     {"expert_type", to_string(spec.expert_type)},
                     {"context_tokens", spec.context_tokens},
                     {"rank_memory_bytes", memory_json(plan.rank)},
                     {"rank_memory_limit_bytes", plan.rank_limit},
                     {"host_memory_bytes", memory_json(plan.host)},
                     {"asyncep", asyncep_json(spec, plan)},
                     {"others", others}};
  fmt::print("{}\n", json.dump(2));
}

}  // namespace

Command add_plan(CLI::App& app) {
  const auto options = std::make_shared<PlanCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Say what a model takes on given hardware, how it can be split, and what to expect; runs nothing");
  add_plan_options(*command,
                   {.devices = "--gpus",
                    .default_step_tokens = fmt::format("as `run` on a GPU, {}, halved until they fit", kGpuStepTokens)},
                   options->plan);
  command->add_flag("--json", options->json, "Print one JSON object");
  return [options] {
    const ChosenModel model = choose_model(options->plan.model);
    const PlanSpec spec = plan_spec(options->plan, model);
    const CapacityPlan plan = make_capacity_plan(spec);
    const std::string& calibration = options->plan.calibration;
    options->json ? print_json(model, calibration, spec, plan) : print_text(model, calibration, spec, plan);
    return plan.problem.empty() ? 0 : 1;
  };
}

}  // namespace zp::app
