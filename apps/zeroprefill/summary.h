// What a run came to, for people (stderr) and for programs (JSON).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "zeroprefill/engine.h"
#include "zp/task/metrics.h"
#include "zp/task/output_file.h"

namespace zp::app {

struct RunSummary {
  TaskMetricsSummary metrics;
  EngineStats stats;
  std::string version{};    ///< of the program
  double wall_seconds = 0;  ///< from the first row read to the last answer written; loading is apart
};

[[nodiscard]] nlohmann::ordered_json to_json(const RunSummary& summary);
/// Throws kIo naming the path.
void write_summary(const RunSummary& summary, OutputFile& file);
/// What was measured at start-up, or read from the file `calibration` (empty: none) and with which model that was
/// measured, and what it makes of a full step, on stderr; nothing where neither was.
void print_saturation(const EngineStats& stats, const std::string& calibration);
/// A few lines on stderr.
void print_summary(const RunSummary& summary);
/// How many rows were answered, and how many failed with which error, in one line on stderr: a run's last.
void print_counts(const TaskMetricsSummary& metrics);

}  // namespace zp::app
