// What `plan` and `simulate` ask for alike: a model, hardware, and how the model lies on it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "zp/plan/capacity_plan.h"

namespace zp::app {

/// What the options are parsed into. Lives as long as the CLI::App.
struct PlanOptions {
  std::string model;
  std::string gpu = "h200";
  std::string hardware;
  int32_t gpus = 1;
  std::string dtype = "bf16";
  std::string host_memory;
  std::string kv_memory;
  int64_t context_tokens = 4096;
  int32_t slots = 2;
  int32_t window = 4;
  double gamma = 1.2;
  std::string rate = "achieved";
  std::string calibration;
  int64_t step_tokens = 0;
};

/// Adds the options; `devices` is the name of the one that says how many ("--gpus", "--ranks").
void add_plan_options(CLI::App& command, const char* devices, PlanOptions& options);

/// A shape, and where its numbers are from.
struct ChosenModel {
  std::string name;
  std::string source;
  std::string planned_only;  ///< what the shape carries only as numbers for planning
  ModelShape shape;
};
/// A model known by name, or a checkpoint folder. Throws kNotFound with the names there are.
[[nodiscard]] ChosenModel choose_model(const std::string& model);

/// Throws kInvalidArgument with every problem.
[[nodiscard]] PlanSpec plan_spec(const PlanOptions& options, const ModelShape& shape);

}  // namespace zp::app
