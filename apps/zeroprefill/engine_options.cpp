// Engine options on the command line.
#include "engine_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>

#include "quantity.h"
#include "whole_number.h"
#include "zp/base/excerpt.h"
#include "zp/base/whole_number.h"
#include "zp/schedule/policy.h"

namespace zp::app {
namespace {

// "10GB/s"; empty: no limit.
uint64_t parse_bandwidth(const std::string& option, const std::string& text) {
  static const Units kUnits = {{"B/s", 1}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};
  const auto rate = parse_quantity(option, text, kUnits, "a bandwidth such as 50GB/s or 800MB/s");
  if (!rate) return 0;
  if (!(*rate >= 1e3 && *rate <= 1e15))
    fail(ErrorCode::kInvalidArgument, "{} is {}; it must lie in [1KB/s, 1000TB/s]", option, quote_excerpt(text));
  return static_cast<uint64_t>(*rate);
}

// "5GFLOP/s"; empty: as fast as it can.
double parse_pace(const std::string& option, const std::string& text) {
  static const Units kUnits = {{"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}};
  return parse_quantity(option, text, kUnits, "a rate such as 5GFLOP/s or 2TFLOP/s").value_or(0);
}

ExpertMode parse_mode(const std::string& text) {
  static const std::map<std::string, ExpertMode> kModes = {{"auto", ExpertMode::kAuto},
                                                           {"resident", ExpertMode::kResident},
                                                           {"gathered", ExpertMode::kGathered},
                                                           {"host", ExpertMode::kHost},
                                                           {"hybrid", ExpertMode::kHybrid}};
  return kModes.at(text);
}

BelowThreshold parse_below_threshold(const std::string& text) {
  static const std::map<std::string, BelowThreshold> kModes = {{"auto", BelowThreshold::kAuto},
                                                               {"gather-all", BelowThreshold::kGatherAll},
                                                               {"fetch-routed", BelowThreshold::kFetchRouted},
                                                               {"send-activations", BelowThreshold::kSendActivations}};
  return kModes.at(text);
}

// "8192" is tokens, "3.5ms" the predicted time of a layer; empty: measured.
void parse_step_target(const std::string& text, TargetConfig& target) {
  const std::string option = "--step-target";
  static const Units kUnits = {{"ms", 1}, {"us", 1e-3}, {"s", 1e3}};
  if (text.empty()) return;
  if (text.find_first_not_of("0123456789") == std::string::npos) {
    target.tokens = to_whole_number<int64_t>(text);
    if (!target.tokens)
      fail(ErrorCode::kInvalidArgument, "{} is {}; so many tokens are in no step", option, quote_excerpt(text));
  } else {
    target.milliseconds =
        parse_quantity(option, text, kUnits, "tokens, such as 8192, or a layer's time, such as 3.5ms");
  }
}

void add_target_options(CLI::App& command, EngineOptions& options) {
  EngineConfig& config = options.config;
  const char* group = "Scheduling";
  command
      .add_option("--policy", config.policy,
                  fmt::format("Which rank a request goes to: {}", fmt::join(policy_names(), ", ")))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--step-target", options.step_target,
                  "Fill steps to this many tokens, such as 8192, or to this predicted time of a layer, such as 3.5ms, "
                  "instead of what hides the transfer of experts")
      ->group(group);
  add_whole_number(command, "--step-tokens", config.step_tokens,
                   "From so many tokens on steps are efficient: they are filled to no less; by default 4096, on a GPU "
                   "32768 if they fit")
      ->group(group);
  add_whole_number(command, "--max-step-tokens", config.max_step_tokens,
                   "No step computes more, unless one request has more; memory is planned for it. 0: twice as many as "
                   "above, or what hides the transfer of experts, up to 262144, if that fits")
      ->group(group);
  command
      .add_option("--gamma", config.target.gamma,
                  "By how much a layer's compute should exceed the transfer of the next one's experts, at first")
      ->capture_default_str()
      ->group(group);
  command.add_flag("!--no-adapt", config.target.adapt, "Keep gamma, rates and target as measured at the start")
      ->group(group);
  command
      .add_option("--calibration", options.calibration,
                  "File of an earlier run's --save-calibration, instead of measuring")
      ->group(group);
}

void add_expert_options(CLI::App& command, EngineOptions& options) {
  ExpertConfig& experts = options.config.experts;
  const char* group = "Experts";
  add_whole_number(command, "--ranks", options.config.ranks, "Devices, or virtual ranks on the CPU")->group(group);
  command
      .add_option(
          "--experts", options.experts,
          "Where experts live: resident (all on every rank), gathered (each on one rank), host (in host memory), "
          "hybrid (on one rank as far as memory goes, else on the host), auto")
      ->check(CLI::IsMember({"auto", "resident", "gathered", "host", "hybrid"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--below-threshold", options.below_threshold,
                  "How steps too small to hide transfers get experts: gather-all, fetch-routed (only those needed), "
                  "send-activations (to the experts' ranks), auto (by measured costs)")
      ->check(CLI::IsMember({"auto", "gather-all", "fetch-routed", "send-activations"}))
      ->capture_default_str()
      ->group(group);
  add_whole_number(command, "--slots", experts.slots, "Layers whose remote experts a rank has room for")->group(group);
  add_whole_number(command, "--window", experts.window, "Layers that a rank's host streamer may be ahead (hybrid)")
      ->group(group);
  command.add_option("--slice", options.slice, "The most that one copy moves")->capture_default_str()->group(group);
  command
      .add_option("--expert-memory", options.expert_memory,
                  "Memory of each rank for the experts it keeps (auto, host, hybrid)")
      ->group(group);
  command.add_option("--host-memory", options.host_memory, "Host memory for experts")->group(group);
  command
      .add_option("--link-bandwidth", options.link_bandwidth,
                  "Of each virtual rank's link to the others, such as 50GB/s; CPU only")
      ->group(group);
  command
      .add_option("--host-bandwidth", options.host_bandwidth,
                  "Of each virtual rank's link to host memory, such as 20GB/s; CPU only")
      ->group(group);
  add_whole_number(command, "--link-latency-us", experts.peer_link.latency_us,
                   "Before each copy from another rank; CPU only")
      ->group(group);
  add_whole_number(command, "--host-latency-us", experts.host_link.latency_us,
                   "Before each copy from host memory; CPU only")
      ->group(group);
  command
      .add_option("--pace", options.pace, "Compute no faster than this, such as 5GFLOP/s, to model a device; CPU only")
      ->group(group);
}

void add_random_options(CLI::App& command, RandomConfig& random) {
  const char* group = "Random models";
  add_whole_number(command, "--layers", random.layers, "Only the first so many layers; 0: all")->group(group);
  add_whole_number(command, "--random-seed", random.seed, "Weights and routes are drawn from it")->group(group);
  command
      .add_option("--expert-skew", random.expert_skew,
                  "How many times more tokens a layer's commonest expert gets than its rarest; 1: all the same")
      ->capture_default_str()
      ->group(group);
}

}  // namespace

void add_engine_options(CLI::App& command, EngineOptions& options) {
  EngineConfig& config = options.config;
  command
      .add_option(
          "--model", options.model,
          "Hugging Face checkpoint folder, or random:NAME for random weights in the shape of a known model or of "
          "a folder's config.json")
      ->required();
  command.add_option("--tokenizer", options.tokenizer, "Folder with a tokenizer.json, instead of the model's own");
  add_random_options(command, options.config.random);
  command.add_option("--device", config.device, "cpu, cuda or cuda:N")->capture_default_str();
  command
      .add_option("--strategy", config.strategy,
                  "How ranks share the work: asyncep, or a synchronous baseline (attention+experts)")
      ->check(CLI::IsMember({"asyncep", "dp+ep", "dp+tp", "tp+ep", "tp+tp", "pp+pp"}))
      ->capture_default_str();
  add_whole_number(command, "--threads", config.threads, "CPU threads that compute; 0: all cores");
  command.add_option("--dtype", options.dtype, "auto, bf16 or f32")
      ->check(CLI::IsMember({"auto", "bf16", "f32"}))
      ->capture_default_str();
  command.add_option("--kv-cache", options.kv_cache,
                     "Memory for keys and values kept for reuse, such as 2GiB; 0: none outlive their step");
  command.add_option("--memory-limit", options.memory_limit, "Refuse to start beyond this, such as 16GiB");
  add_whole_number(command, "--max-context", config.max_context_tokens,
                   "Longest context in tokens; 0: the model's own limit");
  add_whole_number(command, "--chunk-tokens", config.chunk_tokens,
                   "Tokens that everything but attention works on at a time; by default 2048, on a GPU 16384");
  add_whole_number(command, "--max-pending", config.max_pending_requests, "Rows read ahead of their answers");
  add_target_options(command, options);
  add_expert_options(command, options);
  command.add_flag("--reference", config.reference_ops, "Use the slow reference operations, to look for errors");
}

std::span<const FieldOption> engine_fields() noexcept {
  static constexpr FieldOption kFields[] = {
      {"model", "--model"},
      {"ranks", "--ranks"},
      {"threads", "--threads"},
      {"device", "--device"},
      {"policy", "--policy"},
      {"strategy", "--strategy"},
      {"max_context_tokens", "--max-context"},
      {"kv_cache_bytes", "--kv-cache"},
      {"memory_limit_bytes", "--memory-limit"},
      {"max_pending_requests", "--max-pending"},
      {"step_tokens", "--step-tokens"},
      {"max_step_tokens", "--max-step-tokens"},
      {"chunk_tokens", "--chunk-tokens"},
      {"paced_flops_per_second", "--pace"},
      {"target.gamma", "--gamma"},
      {"target.tokens", "--step-target"},
      {"target.milliseconds", "--step-target"},
      {"target.calibration", "--calibration"},
      {"experts.mode", "--experts"},
      {"experts.below_threshold", "--below-threshold"},
      {"below_threshold", "--below-threshold"},
      {"experts.slots", "--slots"},
      {"experts.window", "--window"},
      {"experts.slice_bytes", "--slice"},
      {"experts.rank_bytes", "--expert-memory"},
      {"experts.host_bytes", "--host-memory"},
      {"experts.peer_link.latency_us", "--link-latency-us"},
      {"experts.host_link.latency_us", "--host-latency-us"},
      {"random.layers", "--layers"},
      {"random.seed", "--random-seed"},
      {"random.expert_skew", "--expert-skew"},
      {"expert_skew", "--expert-skew"},
      {"trace", "--trace"},
  };
  return kFields;
}

EngineConfig engine_config(const EngineOptions& options) {
  EngineConfig config = options.config;
  config.model = options.model;
  config.tokenizer = options.tokenizer;
  config.compute = options.dtype == "bf16"  ? ComputeType::kBf16
                   : options.dtype == "f32" ? ComputeType::kF32
                                            : ComputeType::kAuto;
  config.kv_cache_bytes = parse_bytes("--kv-cache", options.kv_cache);
  config.memory_limit_bytes = parse_bytes("--memory-limit", options.memory_limit);
  config.experts.mode = parse_mode(options.experts);
  config.experts.below_threshold = parse_below_threshold(options.below_threshold);
  config.experts.slice_bytes = parse_bytes("--slice", options.slice).value_or(config.experts.slice_bytes);
  config.experts.rank_bytes = parse_bytes("--expert-memory", options.expert_memory);
  config.experts.host_bytes = parse_bytes("--host-memory", options.host_memory);
  config.experts.peer_link.bytes_per_second = parse_bandwidth("--link-bandwidth", options.link_bandwidth);
  config.experts.host_link.bytes_per_second = parse_bandwidth("--host-bandwidth", options.host_bandwidth);
  config.target.calibration = options.calibration;
  parse_step_target(options.step_target, config.target);
  config.paced_flops_per_second = parse_pace("--pace", options.pace);
  return config;
}

}  // namespace zp::app
