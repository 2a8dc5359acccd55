// Options of plan and simulate.
#include "plan_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "note.h"
#include "option_words.h"
#include "quantity.h"
#include "whole_number.h"
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

std::optional<ExpertSpreading> parse_experts(const std::string& text) {
  for (const ExpertSpreading spreading :
       {ExpertSpreading::kResident, ExpertSpreading::kGathered, ExpertSpreading::kHost, ExpertSpreading::kHybrid})
    if (text == to_string(spreading)) return spreading;
  return std::nullopt;
}

void use_calibration(const PlanOptions& options, const std::string& model, PlanSpec& spec) {
  const CalibrationFile file = read_calibration(options.calibration);
  note("rates and links read from {}, measured with {}\n", options.calibration, to_string(file.model));
  const MeasuredModel asked{.name = model, .dtype = options.dtype};
  if (const std::string warning = other_model_warning(options.calibration, file.model, asked); !warning.empty())
    note("{}\n", warning);
  use_measured(file.measured, spec);
}

}  // namespace

void add_plan_options(CLI::App& command, const PlanWords& words, PlanOptions& options) {
  options.devices = words.devices;
  command.add_option("--model", options.model, "A checkpoint folder, or a model known by name: " + known_model_names())
      ->required();
  command.add_option("--gpu", options.gpu, "Hardware profile: h200, h100, a100, l40s, b200, or one of --hardware")
      ->capture_default_str();
  command.add_option("--hardware", options.hardware, "YAML file with further hardware profiles");
  add_whole_number(command, words.devices, options.gpus, "How many such devices");
  command.add_option("--dtype", options.dtype, "What experts are stored and multiplied in")
      ->check(CLI::IsMember({"bf16", "fp8"}))
      ->capture_default_str();
  command
      .add_option("--experts", options.experts,
                  "Where experts live: resident (all on every device), gathered (each on one device), host (in host "
                  "memory, which each device reads alone), hybrid (on one device as far as memory goes, else on the "
                  "host), auto (resident if they fit, else hybrid)")
      ->check(CLI::IsMember({"auto", "resident", "gathered", "host", "hybrid"}))
      ->capture_default_str();
  command.add_option("--host-memory", options.host_memory,
                     "Host memory that may be pinned for experts, such as 512GiB");
  command.add_option("--kv-memory", options.kv_memory,
                     "Memory of each device for keys and values kept for reuse, such as 64GiB; default: 65,536 tokens, "
                     "at most half of what is left");
  add_whole_number(command, "--context", options.context_tokens, "Typical length of a request in tokens");
  add_whole_number(command, "--slots", options.slots, "Layers whose remote experts a device has room for");
  add_whole_number(command, "--window", options.window, "Layers that host streamers may be ahead");
  command.add_option("--gamma", options.gamma, "By how much the compute of a layer should exceed the transfer")
      ->capture_default_str();
  command.add_option("--calibration", options.calibration,
                     "File of `run --save-calibration`, whose rates and links take the place of the profile's");
  add_whole_number(command, "--step-tokens", options.step_tokens,
                   "Steps are filled to no less than so many tokens; 0: " + words.default_step_tokens);
  command
      .add_option("--threshold-rate", options.rate,
                  "F in T = t_EP x F x gamma: the rate achieved, or the data sheet's peak, as in the paper")
      ->check(CLI::IsMember({"achieved", "peak"}))
      ->capture_default_str();
}

ChosenModel choose_model(const std::string& model) {
  const KnownModel* known = known_by_name(model);
  if (known != nullptr)
    return {.name = std::string(known->name),
            .calibrated_name = std::string(known->name),
            .source = std::string(known->source),
            .planned_only = std::string(known->planned_only),
            .shape = known->shape};
  std::error_code ignored;
  if (!std::filesystem::exists(model, ignored))
    fail(ErrorCode::kNotFound, "'{}' is neither a folder nor a model known by name; these are known: {}", model,
         known_model_names());
  return {.name = model,
          .calibrated_name = model_name(model),
          .source = "config.json",
          .planned_only = "",
          .shape = shape_of(inspect_model(model))};
}

void require_none(const PlanOptions& options, const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  const FieldOption fields[] = {
      {"gpus", options.devices}, {"ranks", options.devices}, {"context", "--context"},       {"slots", "--slots"},
      {"window", "--window"},    {"gamma", "--gamma"},       {"look_ahead", "--look-ahead"},
  };
  fail(ErrorCode::kInvalidArgument, "{}", with_option_names(fmt::format("{}", fmt::join(problems, "\n")), fields));
}

PlanSpec plan_spec(const PlanOptions& options, const ChosenModel& model) {
  PlanSpec spec{.shape = model.shape,
                .hardware = find_hardware(options.gpu, options.hardware),
                .gpus = options.gpus,
                .expert_type = options.dtype == "fp8" ? ExpertType::kFp8 : ExpertType::kBf16,
                .experts = parse_experts(options.experts),
                .host_bytes = parse_bytes("--host-memory", options.host_memory),
                .kv_bytes = parse_bytes("--kv-memory", options.kv_memory),
                .context_tokens = options.context_tokens,
                .slots = options.slots,
                .window = options.window,
                .gamma = options.gamma,
                .rate = options.rate == "peak" ? ThresholdRate::kPeak : ThresholdRate::kAchieved};
  if (!options.calibration.empty()) use_calibration(options, model.calibrated_name, spec);
  if (options.step_tokens != 0) {
    if (options.step_tokens < 1 || options.step_tokens > kPlannedStepTokensMax)
      fail(ErrorCode::kInvalidArgument, "--step-tokens is {}; it must be 0 or lie in [1, {}]", options.step_tokens,
           kPlannedStepTokensMax);
    spec.step_tokens = options.step_tokens;
  }
  require_none(options, validate(spec));
  return spec;
}

}  // namespace zp::app
