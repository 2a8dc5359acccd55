// What `plan` and `simulate` ask for alike: a model, hardware, and how the model lies on it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "zp/plan/capacity_plan.h"

namespace zp::app {

/// What the options are parsed into. Lives as long as the CLI::App.
struct PlanOptions {
  std::string devices;  ///< the option that says how many: "--gpus", "--ranks"
  std::string model;
  std::string gpu = "h200";
  std::string hardware;
  int32_t gpus = 1;
  std::string dtype = "bf16";
  std::string experts = "auto";
  std::string host_memory;
  std::string kv_memory;
  int64_t context_tokens = 4096;
  int32_t slots = 2;
  int32_t window = 4;
  double gamma = 1.2;
  std::string rate = "achieved";
  std::string calibration;
  int64_t step_tokens = 0;  ///< 0: not given
};

/// What differs between the commands.
struct PlanWords {
  const char* devices;              ///< as PlanOptions has it
  std::string default_step_tokens;  ///< what --step-tokens 0 means
};
void add_plan_options(CLI::App& command, const PlanWords& words, PlanOptions& options);

/// A shape, and where its numbers are from.
struct ChosenModel {
  std::string name;             ///< known, or the folder as it was given
  std::string calibrated_name;  ///< as MeasuredModel has it
  std::string source;
  std::string planned_only;  ///< what the shape carries only as numbers for planning
  ModelShape shape;
};
/// A checkpoint folder, or a model known by name; a folder with a config.json goes first, whatever it is called. Throws
/// kNotFound with the names there are.
[[nodiscard]] ChosenModel choose_model(const std::string& model);

/// Throws kInvalidArgument with all problems, one a line, unless there are none. Fields of a spec are named by the
/// options that set them, so that "gpus is 0" becomes "--ranks is 0".
void require_none(const PlanOptions& options, const std::vector<std::string>& problems);

/// Says on stderr which model a calibration was measured with. Throws as require_none(), and what is wrong with files.
[[nodiscard]] PlanSpec plan_spec(const PlanOptions& options, const ChosenModel& model);

}  // namespace zp::app
