// The command-line options that describe an engine.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

#include "option_words.h"
#include "zeroprefill/engine.h"

namespace zp::app {

/// What the options are parsed into. Lives as long as the CLI::App.
struct EngineOptions {
  EngineConfig config;
  std::string model;
  std::string tokenizer;
  std::string dtype = "auto";
  std::string kv_cache;
  std::string memory_limit;
  std::string experts = "auto";
  std::string expert_memory;
  std::string host_memory;
  std::string below_threshold = "auto";
  std::string slice = "1MiB";
  std::string link_bandwidth;
  std::string host_bandwidth;
  std::string pace;
  std::string step_target;
  std::string calibration;
};

/// Adds --model, --device, --ranks, --threads, --dtype, the sizes, and what concerns scheduling, experts
/// and their links.
void add_engine_options(CLI::App& command, EngineOptions& options);
/// What messages call the fields of EngineConfig, and the options that set them.
[[nodiscard]] std::span<const FieldOption> engine_fields() noexcept;
/// Throws kInvalidArgument, naming the option.
[[nodiscard]] EngineConfig engine_config(const EngineOptions& options);

}  // namespace zp::app
