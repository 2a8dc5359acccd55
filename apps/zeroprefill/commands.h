// The subcommands: each adds itself to the command line and returns what runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace zp::app {

inline constexpr int kExitDone = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;
/// All rows were taken, but some have an error of their own instead of an answer.
inline constexpr int kExitBadRows = 3;

/// Runs a parsed subcommand and returns the process's exit code.
using Command = std::function<int()>;

/// Answers a task's question for every row of an input.
[[nodiscard]] Command add_run(CLI::App& app);
/// Says what a checkpoint is and what it takes to run it.
[[nodiscard]] Command add_inspect(CLI::App& app);
/// Says what a model takes on given hardware, and what to expect of it.
[[nodiscard]] Command add_plan(CLI::App& app);
/// Runs a workload through the scheduler in virtual time.
[[nodiscard]] Command add_simulate(CLI::App& app);
/// Texts to token ids, or back.
[[nodiscard]] Command add_tokenize(CLI::App& app);

}  // namespace zp::app
