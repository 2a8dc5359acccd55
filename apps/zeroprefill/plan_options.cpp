// Options of plan and simulate.
#include "plan_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "quantity.h"
#include "zeroprefill/engine.h"
#include "zp/base/error.h"
#include "zp/plan/hardware_file.h"
#include "zp/schedule/calibration_file.h"
#include "zp/shape/known_models.h"

namespace zp::app {
namespace {

// Layers without experts come first, as in all models that have such layers; plans do not depend on their order.
ModelShape shape_of(const ModelReport& report) {
  ModelShape shape{.family = report.family,
                   .layers = report.layers,
                   .hidden = report.hidden,
                   .query_heads = report.query_heads,
                   .kv_heads = report.kv_heads,
                   .head_dim = report.head_dim,
                   .vocabulary = report.vocabulary,
                   .max_positions = report.max_positions,
                   .experts = report.experts,
                   .experts_per_token = report.experts_per_token,
                   .expert_intermediate = report.expert_intermediate,
                   .dense_intermediate = report.dense_intermediate,
                   .feed_forward = {},
                   .tied_embeddings = report.tied_embeddings};
  shape.feed_forward.assign(static_cast<size_t>(report.layers), FeedForward::kMoe);
  std::fill_n(shape.feed_forward.begin(), report.layers - report.moe_layers, FeedForward::kDense);
  return shape;
}

}  // namespace

void add_plan_options(CLI::App& command, const char* devices, PlanOptions& options) {
  command.add_option("--model", options.model, "A checkpoint folder, or a model known by name: " + known_model_names())
      ->required();
  command.add_option("--gpu", options.gpu, "Hardware profile: h200, h100, a100, l40s, b200, or one of --hardware")
      ->capture_default_str();
  command.add_option("--hardware", options.hardware, "YAML file with further hardware profiles");
  command.add_option(devices, options.gpus, "How many such devices")->capture_default_str();
  command.add_option("--dtype", options.dtype, "What experts are stored and multiplied in")
      ->check(CLI::IsMember({"bf16", "fp8"}))
      ->capture_default_str();
  command.add_option("--host-memory", options.host_memory,
                     "Host memory that may be pinned for experts, such as 512GiB");
  command.add_option("--kv-memory", options.kv_memory,
                     "Memory of each device for keys and values kept for reuse, such as 64GiB");
  command.add_option("--context", options.context_tokens, "Typical length of a request in tokens")
      ->capture_default_str();
  command.add_option("--slots", options.slots, "Layers whose remote experts a device has room for")
      ->capture_default_str();
  command.add_option("--window", options.window, "Layers that host streamers may be ahead")->capture_default_str();
  command.add_option("--gamma", options.gamma, "By how much the compute of a layer should exceed the transfer")
      ->capture_default_str();
  command.add_option("--calibration", options.calibration,
                     "File of `run --save-calibration`, whose rates and links take the place of the profile's");
  command
      .add_option("--step-tokens", options.step_tokens,
                  "From so many tokens on steps are efficient; 0: as the profile says")
      ->capture_default_str();
  command
      .add_option("--threshold-rate", options.rate,
                  "F in T = t_EP x F x gamma: the rate achieved, or the data sheet's peak, as in the paper")
      ->check(CLI::IsMember({"achieved", "peak"}))
      ->capture_default_str();
}

ChosenModel choose_model(const std::string& model) {
  if (const KnownModel* known = find_known_model(model))
    return {std::string(known->name), std::string(known->source), std::string(known->planned_only), known->shape};
  if (!std::filesystem::exists(model))
    fail(ErrorCode::kNotFound, "'{}' is neither a folder nor a model known by name; these are known: {}", model,
         known_model_names());
  return {model, "config.json", "", shape_of(inspect_model(model))};
}

PlanSpec plan_spec(const PlanOptions& options, const ModelShape& shape) {
  PlanSpec spec{.shape = shape,
                .hardware = find_hardware(options.gpu, options.hardware),
                .gpus = options.gpus,
                .expert_type = options.dtype == "fp8" ? ExpertType::kFp8 : ExpertType::kBf16,
                .host_bytes = parse_bytes("--host-memory", options.host_memory),
                .kv_bytes = parse_bytes("--kv-memory", options.kv_memory),
                .context_tokens = options.context_tokens,
                .slots = options.slots,
                .window = options.window,
                .gamma = options.gamma,
                .rate = options.rate == "peak" ? ThresholdRate::kPeak : ThresholdRate::kAchieved};
  if (!options.calibration.empty()) use_measured(read_calibration(options.calibration).measured, spec);
  if (options.step_tokens != 0) {
    if (options.step_tokens < 1 || options.step_tokens > int64_t{1} << 30)
      fail(ErrorCode::kInvalidArgument, "--step-tokens is {}; it must be 0 or lie in [1, {}]", options.step_tokens,
           int64_t{1} << 30);
    spec.hardware.efficient_step_tokens = options.step_tokens;
  }
  const std::vector<std::string> problems = validate(spec);
  if (!problems.empty()) fail(ErrorCode::kInvalidArgument, "{}", fmt::join(problems, "\n"));
  return spec;
}

}  // namespace zp::app
