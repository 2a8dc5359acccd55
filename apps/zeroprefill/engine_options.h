// The command-line options that describe an engine.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "zeroprefill/engine.h"

namespace zp::app {

/// What the options are parsed into. Lives as long as the CLI::App.
struct EngineOptions {
  EngineConfig config;
  std::string model;
  std::string dtype = "auto";
  std::string kv_cache;
  std::string memory_limit;
};

/// Adds --model, --device, --threads, --dtype and the sizes.
void add_engine_options(CLI::App& command, EngineOptions& options);
/// Throws kInvalidArgument, naming the option.
[[nodiscard]] EngineConfig engine_config(const EngineOptions& options);

}  // namespace zp::app
