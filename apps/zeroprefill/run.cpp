// `zeroprefill run`: rows in, answers out, in input order.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "collector.h"
#include "commands.h"
#include "engine_options.h"
#include "note.h"
#include "option_words.h"
#include "outputs.h"
#include "progress.h"
#include "run_raw.h"
#include "summary.h"
#include "zeroprefill/engine.h"
#include "zp/base/excerpt.h"
#include "zp/task/answer.h"
#include "zp/task/answer_writer.h"
#include "zp/task/label_set.h"
#include "zp/task/metrics.h"
#include "zp/task/output_file.h"
#include "zp/task/prompt.h"
#include "zp/task/row_reader.h"
#include "zp/task/task_spec.h"

namespace zp::app {
namespace {

struct RunOptions {
  EngineOptions engine;
  std::string task;
  std::string input;
  std::string synthetic;
  std::string output = "-";
  std::string summary;
  std::string trace;
  std::string save_calibration;
};

// The labels' token ids. A context's last token decides how a label is tokenized, and every context of a task ends with
// the same text, so one stands for all.
struct Labels {
  std::vector<std::string> texts;
  std::vector<Candidate> tokens;
};

Labels find_labels(const TaskSpec& spec, const Engine& engine) {
  constexpr std::string_view kContextEnd = "\n\nx\nAnswer:";
  Labels labels;
  std::vector<int32_t> taken;
  std::unordered_map<std::string, int32_t> token_of;
  labels.texts = choose_labels(spec, [&](std::string_view label) {
    const std::optional<int32_t> token = engine.candidate_token(kContextEnd, label);
    if (!token || std::find(taken.begin(), taken.end(), *token) != taken.end()) return false;
    taken.push_back(*token);
    token_of.emplace(label, *token);
    return true;
  });
  for (const std::string& text : labels.texts) labels.tokens.emplace_back(token_of.at(text));
  return labels;
}

// The number of rows in a file, judged by those read so far; 0 for a pipe.
int64_t estimate_rows(int64_t rows_read, int64_t bytes_read, int64_t file_bytes) {
  if (file_bytes <= 0 || bytes_read <= 0) return 0;
  const double rows_per_byte = static_cast<double>(rows_read) / static_cast<double>(bytes_read);
  return std::max(rows_read, static_cast<int64_t>(rows_per_byte * static_cast<double>(file_bytes)));
}

int64_t size_of_file(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

struct Submitter {
  const TaskSpec& spec;
  const PromptRenderer& renderer;
  const Labels& labels;
  Engine& engine;
  int64_t file_bytes = 0;
};

void submit_rows(RowReader& rows, const Submitter& to, Collector& collector) {
  const auto& [spec, renderer, labels, engine, file_bytes] = to;
  while (std::optional<Row> row = rows.next()) {
    collector.rethrow_failure();
    collector.expect_rows(estimate_rows(row->index + 1, rows.taken_bytes(), file_bytes));
    auto prepared = std::make_shared<PreparedRow>(renderer.prepare(*row));
    const int64_t index = row->index;
    if (prepared->error) {
      collector.take_error(prepared->id, index, *prepared->error);
      continue;
    }
    try {
      Request request;
      request.context = std::move(prepared->context);
      request.candidates = labels.tokens;
      (void)engine.submit(request, [prepared, index, &collector, &spec = to.spec](uint64_t, const Outcome& outcome) {
        collector.take(
            prepared->id, index, outcome, spec.choices.size(),
            [&](const Answer&, const ItemResult& item, const Scores& scores) {
              return answer_line(spec, prepared->id, scores, item);
            },
            [&](TaskMetrics& metrics, const Scores& scores) { metrics.add_answer(scores.best, prepared->label); });
      });
    } catch (const Error& error) {
      collector.take_error(prepared->id, index, {error.code(), error.what()});
    }
  }
}

// What is read for --tokenizer, a folder or a tokenizer.json, whose neighbour is read too.
std::vector<std::string> tokenizer_files(const std::string& tokenizer) {
  std::error_code error;
  if (tokenizer.empty() || std::filesystem::is_directory(tokenizer, error)) return {tokenizer};
  return {tokenizer, std::filesystem::path(tokenizer).replace_filename("tokenizer_config.json").string()};
}

CommandFiles files_of(const RunOptions& options) {
  const std::string& model = options.engine.model;
  CommandFiles files{
      .outputs = {{"--output", options.output, true},
                  {"--summary", options.summary, true},
                  {"--trace", options.trace, true},
                  {"--save-calibration", options.save_calibration, true}},
      .inputs = {{"--input", options.input, true},
                 {"--task", options.task},
                 {"--calibration", options.engine.calibration},
                 {"--model", model.starts_with(kRandomPrefix) ? model.substr(kRandomPrefix.size()) : model}}};
  for (const std::string& path : tokenizer_files(options.engine.tokenizer))
    files.inputs.push_back({"--tokenizer", path});
  return files;
}

// What a run writes beside its answers. Opened before the work, so that a path that cannot be written costs none.
class Reports final {
 public:
  explicit Reports(const RunOptions& options) {
    if (!options.summary.empty()) summary_.emplace(options.summary);
    if (!options.trace.empty()) trace_.emplace(options.trace);
    if (!options.save_calibration.empty()) calibration_.emplace(options.save_calibration);
  }
  void write(const TaskMetricsSummary& metrics, const Engine& engine, double wall_seconds) {
    const RunSummary summary{
        .metrics = metrics, .stats = engine.stats(), .version = ZP_VERSION, .wall_seconds = wall_seconds};
    if (trace_) {
      trace_->write_lines(engine.trace_json());
      trace_->close();
      if (summary.stats.dropped_spans > 0)
        note("the trace has no room for {} later spans, which it leaves out\n", summary.stats.dropped_spans);
    }
    if (calibration_) {
      calibration_->write_lines(engine.calibration_json());
      calibration_->close();
    }
    print_summary(summary);
    if (summary_) write_summary(summary, *summary_);
  }

 private:
  std::optional<OutputFile> summary_;
  std::optional<OutputFile> trace_;
  std::optional<OutputFile> calibration_;
};

std::unique_ptr<Engine> create_engine(const EngineConfig& config) {
  try {
    return Engine::create(config);
  } catch (const Error& error) {
    throw Error(error.code(), with_option_names(error.what(), engine_fields()));
  }
}

std::unique_ptr<Engine> make_engine(const RunOptions& options) {
  EngineConfig config = engine_config(options.engine);
  config.trace = !options.trace.empty();
  if (!options.save_calibration.empty() && config.strategy != "asyncep")
    fail(ErrorCode::kInvalidArgument, "--save-calibration needs strategy asyncep: {} measures nothing",
         config.strategy);
  config.on_memory_plan = [](const EngineMemory& memory) { note("{}\n", memory.to_text()); };
  std::unique_ptr<Engine> engine = create_engine(config);
  const EngineStats stats = engine->stats();
  const std::string why =
      why_other_experts(options.engine.experts, stats.experts, {.ranks = config.ranks, .option = "--expert-memory"});
  if (!why.empty()) note("{}\n", why);
  print_saturation(stats, options.engine.calibration);
  return engine;
}

TaskMetricsSummary run_rows(RowReader& rows, const Submitter& to, Collector& collector) {
  try {
    submit_rows(rows, to, collector);
  } catch (...) {
    to.engine.drain();  // callbacks refer to the collector
    throw;
  }
  to.engine.drain();
  return collector.close();
}

// Says what became of the rows, last of all; the exit code. Rows that a device lost are the run's failure.
int finish(const TaskMetricsSummary& metrics) {
  print_counts(metrics);
  if (metrics.lost > 0) return kExitError;
  return metrics.failed > 0 ? kExitBadRows : kExitDone;
}

// Rows of requests as they are, or made up.
int run_without_task(const RunOptions& options) {
  std::unique_ptr<RawRows> rows = options.synthetic.empty() ? open_raw_rows(options.input) : nullptr;
  const Synthetic synthetic =
      options.synthetic.empty() ? Synthetic{} : parse_synthetic("--synthetic", options.synthetic);
  const std::unique_ptr<Engine> engine = make_engine(options);
  if (!rows) rows = make_synthetic_rows(synthetic, engine->stats().vocabulary, options.engine.config.random.seed);
  Reports reports(options);
  const SteadyClock clock;
  const int64_t begin_ns = clock.now_ns();
  const TaskMetricsSummary metrics = run_raw(*rows, *engine, options.output);
  reports.write(metrics, *engine, static_cast<double>(clock.now_ns() - begin_ns) * 1e-9);
  return finish(metrics);
}

int run(const RunOptions& options) {
  if (options.input.empty() == options.synthetic.empty())
    fail(ErrorCode::kInvalidArgument, "give either --input or --synthetic");
  if (!options.task.empty() && !options.synthetic.empty())
    fail(ErrorCode::kInvalidArgument, "--synthetic makes up token ids, which --task cannot ask about");
  require_safe_outputs(files_of(options));
  if (options.task.empty()) return run_without_task(options);
  const TaskSpec spec = load_task_spec(options.task);
  const std::unique_ptr<RowReader> rows = open_rows(options.input);
  const std::unique_ptr<Engine> engine = make_engine(options);
  const Labels labels = find_labels(spec, *engine);
  const PromptRenderer renderer(spec, labels.texts);
  Reports reports(options);
  const SteadyClock clock;
  Collector collector(options.output, spec.choices.size(), &clock);
  const int64_t begin_ns = clock.now_ns();
  const TaskMetricsSummary metrics =
      run_rows(*rows, {spec, renderer, labels, *engine, size_of_file(options.input)}, collector);
  reports.write(metrics, *engine, static_cast<double>(clock.now_ns() - begin_ns) * 1e-9);
  if (spec.label_column && metrics.answered > 0 && metrics.scored == 0)
    note("no row has a label in column {}, so there is no accuracy\n", quote_excerpt(*spec.label_column));
  return finish(metrics);
}

}  // namespace

Command add_run(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Answer a task's question for every row of an input");
  add_engine_options(*command, options->engine);
  command->add_option("--task", options->task,
                      "Task file (YAML). Without one, rows are requests as they are: \"tokens\" (ids) or \"context\" "
                      "(text), and \"candidates\" (ids or texts); if need be \"id\", \"priority\" and \"deadline_ms\"");
  command->add_option("--input", options->input, "Rows: a .jsonl, .csv or .tsv file, or - for JSON lines on stdin");
  command->add_option("--synthetic", options->synthetic,
                      "Instead of an input: requests x tokens of random ids, such as 32x512");
  command->add_option("--output", options->output, "Answers as JSON lines, in input order; - for stdout")
      ->capture_default_str();
  command->add_option("--summary", options->summary, "Write counts, rates and accuracy to this JSON file");
  command->add_option("--save-calibration", options->save_calibration,
                      "Write what was measured, as eight or more large steps have corrected it, to this JSON file: for "
                      "--calibration, plan and simulate");
  command->add_option("--trace", options->trace,
                      "Write what each rank did when to this JSON file, for chrome://tracing or ui.perfetto.dev");
  command->footer(
      "Exit codes: 0 every row was answered; 1 an error, or rows failed through no fault of theirs (a device failed); "
      "2 a "
      "wrong command line; 3 some rows have an error instead of an answer. The last line on stderr counts them.");
  return [options] { return run(*options); };
}

}  // namespace zp::app
