// Prefill of a whole model of random weights: tokens/s, MFU and exposed time for shapes of steps, places of experts and
// ways to get them; a JSON line a measurement, and where the time goes.
//   build/bench/model_bench --model random:Qwen3-30B-A3B --device cuda --shapes 32x512,8x4096,1x32768 --stages
//       [--json FILE --commit HASH]
//   build/bench/model_bench --model random:Qwen3-30B-A3B --device cuda --experts resident,host
//       --modes gather-all,fetch-routed --sweep 60000      the curve from an eighth to twice these tokens a step
// A figure is the median of five steps after two more, each of one step's submission to its results on the host, the
// output head for one row a request included; no prefix is shared. FLOPs are those of src/zp/shape/flops.h without the
// head: of attention, the pairs that a causal mask leaves.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "bench/model/bench_ranks.h"
#include "bench/model/stage_table.h"
#include "bench/result_lines.h"
#include "zp/base/error.h"
#include "zp/base/host_info.h"
#include "zp/base/human.h"
#include "zp/engine/route_counter.h"
#include "zp/engine/source.h"
#include "zp/plan/hardware_file.h"
#include "zp/shape/flops.h"

namespace zp::bench {
namespace {

struct Options {
  EngineConfig config;
  std::string model = "random:models/demo-moe";
  std::string shapes = "32x512,8x4096";
  std::string experts = "resident";
  std::string modes = "gather-all";
  int64_t sweep_tokens = 0;
  int64_t sweep_context = 4096;
  int64_t chunk_tokens = 16384;
  std::string dtype = "bf16";
  std::string hardware;
  std::string json;
  std::string commit;
  std::string command;
  int32_t warm_up = 2;
  int32_t steps = 5;
  double cell_seconds = 0;
  double warm_up_seconds = 0;
  bool stages = false;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

// "32x512,1x4096"
std::vector<StepShape> parse_shapes(const std::string& text) {
  std::vector<StepShape> shapes;
  for (const std::string& part : split(text)) {
    StepShape shape;
    char cross = 0;
    std::istringstream stream(part);
    if (!(stream >> shape.requests >> cross >> shape.tokens) || cross != 'x' || stream.peek() != EOF ||
        shape.requests < 1 || shape.tokens < 1 || shape.requests > 1 << 20 || shape.tokens > 1 << 22)
      fail(ErrorCode::kInvalidArgument, "--shapes has '{}'; it must be requests x tokens, such as 32x512", part);
    shapes.push_back(shape);
  }
  return shapes;
}

// From an eighth to twice the tokens, in requests of one length (or one shorter request).
std::vector<StepShape> sweep_shapes(int64_t tokens, int64_t context) {
  std::vector<StepShape> shapes;
  for (const double share : {0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0}) {
    const auto wanted = static_cast<int64_t>(share * static_cast<double>(tokens));
    if (wanted <= context)
      shapes.push_back({1, std::max<int64_t>(1, wanted)});
    else
      shapes.push_back({wanted / context, context});
  }
  return shapes;
}

ExpertMode parse_experts(const std::string& text) {
  if (text == "resident") return ExpertMode::kResident;
  if (text == "gathered") return ExpertMode::kGathered;
  if (text == "host") return ExpertMode::kHost;
  if (text == "hybrid") return ExpertMode::kHybrid;
  fail(ErrorCode::kInvalidArgument, "--experts has '{}'; it must be resident, gathered, host or hybrid", text);
}

StepMode parse_mode(const std::string& text) {
  if (text == "gather-all") return StepMode::kGatherAll;
  if (text == "fetch-routed") return StepMode::kFetchRouted;
  fail(ErrorCode::kInvalidArgument, "--modes has '{}'; it must be gather-all or fetch-routed", text);
}

double flops_of(const ModelShape& m, const StepShape& shape) {
  const auto linear = static_cast<double>(shape.total()) * static_cast<double>(linear_flops_all_layers(m).total());
  const auto pairs = static_cast<double>(attention_flops_all_layers(m, {.prefix = 0, .suffix = shape.tokens}));
  return linear + static_cast<double>(shape.requests) * pairs;
}

/// Runs cells and writes them down.
class Bench final {
 public:
  explicit Bench(const Options& options)
      : options_(options), results_file_(options.json, options.commit), source_(open_source(options.config)) {
    if (!options.hardware.empty()) hardware_ = find_hardware(options.hardware);
    shapes_ = options.sweep_tokens > 0 ? sweep_shapes(options.sweep_tokens, options.sweep_context)
                                       : parse_shapes(options.shapes);
    if (shapes_.empty()) fail(ErrorCode::kInvalidArgument, "--shapes is empty");
  }

  /// False if a shape's results had other bits in one step, or with experts in one place, than in another.
  [[nodiscard]] bool run() {
    for (const std::string& experts : split(options_.experts)) run_experts(experts);
    return same_;
  }

 private:
  [[nodiscard]] EngineConfig config_for(const std::string& experts) const {
    EngineConfig config = options_.config;
    config.experts.mode = parse_experts(experts);
    config.experts.below_threshold = BelowThreshold::kGatherAll;
    config.kv_cache_bytes = 0;
    config.max_pending_requests = 1;
    config.max_pending_bytes = 1;
    int64_t tokens = 0;
    for (const StepShape& shape : shapes_) {
      tokens = std::max(tokens, shape.total());
      config.max_context_tokens = std::max(config.max_context_tokens, shape.tokens);
    }
    config.step_tokens = (tokens + 1) / 2;
    config.max_step_tokens = tokens;  // whatever would hide the transfer of experts
    config.chunk_tokens = std::min(options_.chunk_tokens, tokens);
    return config;
  }

  void run_experts(const std::string& experts) {
    const EngineConfig config = config_for(experts);
    if (const auto problems = validate(config); !problems.empty())
      fail(ErrorCode::kInvalidArgument, "{}", fmt::join(problems, "; "));
    // Its longest context is that of the shapes.
    source_ = open_source(config);
    BenchRanks ranks(config, *source_);
    fmt::print("{}\n{} with experts {}, loaded in {:.2f} s\n", ranks.setup().memory.to_text(), options_.model, experts,
               ranks.load_seconds());
    for (const std::string& mode : split(options_.modes)) {
      // Of experts that are there, all are.
      if (experts == "resident" && mode != split(options_.modes).front()) continue;
      const StepMode wanted = parse_mode(mode);
      ranks.use(wanted);
      for (const StepShape& shape : shapes_) {
        // A step of several chunks gathers all.
        if (wanted == StepMode::kFetchRouted && shape.total() > *config.chunk_tokens)
          fmt::print("{}x{}: more than a chunk, so not fetched by routing\n", shape.requests, shape.tokens);
        else
          run_cell(ranks, experts, shape);
      }
    }
  }

  void run_cell(BenchRanks& ranks, const std::string& experts, const StepShape& shape) {
    const ForwardStep step = make_step(shape, source_->shape().vocabulary, options_.config.random.seed);
    const auto [warm_up, steps] = runs_of(ranks, step);
    const Measured measured = ranks.run(step, warm_up, steps);
    note_results(shape, measured);
    std::optional<PassTotals> stages;
    if (options_.stages) stages = ranks.profile(step);
    nlohmann::ordered_json line = cell_json(ranks, experts, shape, measured);
    const RouteStats routes = routes_of(step);
    line["expert_skew_asked"] = routes.asked_skew;
    line["expert_skew"] = std::isfinite(routes.skew_mean) ? nlohmann::ordered_json(routes.skew_mean) : nullptr;
    if (stages) line["profile"] = stage_json(*stages, hardware_);
    print_cell(line, measured.output_hash);
    if (stages) fmt::print("{}", stage_text(*stages, hardware_));
    (void)std::fflush(stdout);
    results_file_.write(std::move(line),
                        {.command = options_.command,
                         .commit = options_.commit,
                         .device = ranks.description().device,
                         .seed = options_.config.random.seed},
                        measured.output_hash);
  }

  void note_results(const StepShape& shape, const Measured& measured) {
    const auto [found, added] = results_.try_emplace({shape.requests, shape.tokens}, measured.output_hash);
    if (measured.repeatable && found->second == measured.output_hash) return;
    same_ = false;
    fmt::print(stderr, "model_bench: {}x{} has other results than before\n", shape.requests, shape.tokens);
  }

  struct Runs {
    int32_t warm_up;
    int32_t steps;
  };
  /// Fewer where they would take longer than a cell may: at least one warm-up step, which this runs, and three more.
  /// More before them where warming up must last.
  [[nodiscard]] Runs runs_of(BenchRanks& ranks, const ForwardStep& step) const {
    if (options_.cell_seconds <= 0 && options_.warm_up_seconds <= 0) return {options_.warm_up, options_.steps};
    const double seconds = ranks.run(step, 0, 1).seconds;
    Runs runs{std::max(0, options_.warm_up - 1), options_.steps};
    if (options_.cell_seconds > 0) {
      const auto room = static_cast<int32_t>(std::min(options_.cell_seconds / seconds, 1000.0)) - 1;
      runs.steps = std::clamp(room, std::min(3, options_.steps), options_.steps);
      runs.warm_up = std::clamp(room - runs.steps, 0, runs.warm_up);
    }
    runs.warm_up = std::max(runs.warm_up, static_cast<int32_t>(std::min(options_.warm_up_seconds / seconds, 1000.0)));
    return runs;
  }

  [[nodiscard]] RouteStats routes_of(const ForwardStep& step) const {
    if (!source_->draws_routes()) return {};
    RouteCounter counter(*source_, options_.config.random.expert_skew);
    counter.add(step.ids, step.positions);
    return counter.stats();
  }

  [[nodiscard]] nlohmann::ordered_json cell_json(BenchRanks& ranks, const std::string& experts, const StepShape& shape,
                                                 const Measured& measured) const {
    const double flops = flops_of(source_->shape(), shape);
    const double peak = hardware_ ? hardware_->peak_bf16 : 0;
    return {{"bench", options_.sweep_tokens > 0 ? "model_sweep" : "model"},
            {"model", options_.model},
            {"layers", source_->shape().layers},
            {"dtype", options_.dtype},
            {"gpus", options_.config.ranks},
            {"strategy", options_.config.strategy},
            {"experts", experts},
            {"mode", to_string(measured.mode)},
            {"context", shape.tokens},
            {"requests", shape.requests},
            {"tokens", shape.total()},
            {"tokens_per_s_per_gpu", static_cast<double>(shape.total()) / measured.seconds},
            {"mfu", peak > 0 ? nlohmann::ordered_json(flops / measured.seconds / peak) : nullptr},
            {"exposed_fraction", measured.exposed_seconds / measured.seconds},
            {"step_ms", measured.seconds * 1e3},
            {"step_ms_min", measured.seconds_min * 1e3},
            {"step_ms_max", measured.seconds_max * 1e3},
            {"steps", measured.steps},
            {"flops", flops},
            {"chunk_tokens", std::min(options_.chunk_tokens, shape.total())},
            {"load_s", ranks.load_seconds()},
            {"planned_bytes", ranks.setup().memory.total_bytes()},
            {"device_bytes_used", ranks.device_bytes_used()},
            {"host_peak_bytes", peak_resident_bytes()},
            {"operations", ranks.description().operations},
            {"repeatable", measured.repeatable}};
  }

  static void print_cell(const nlohmann::ordered_json& line, uint64_t output_hash) {
    const nlohmann::ordered_json& mfu = line["mfu"];
    fmt::print("{}x{} {} {}: {:.2f} ms ({:.2f} to {:.2f}), {:.0f} tokens/s{}, exposed {:.1f} %, outputs {:016x}{}\n",
               line["requests"].get<int64_t>(), line["context"].get<int64_t>(), line["experts"].get<std::string>(),
               line["mode"].get<std::string>(), line["step_ms"].get<double>(), line["step_ms_min"].get<double>(),
               line["step_ms_max"].get<double>(), line["tokens_per_s_per_gpu"].get<double>(),
               mfu.is_null() ? "" : fmt::format(", MFU {:.1f} %", 100 * mfu.get<double>()),
               100 * line["exposed_fraction"].get<double>(), output_hash,
               line["repeatable"].get<bool>() ? "" : " (NOT the same every step)");
  }

  Options options_;
  ResultFile results_file_;
  std::unique_ptr<WeightSource> source_;
  std::vector<StepShape> shapes_;
  std::optional<HardwareProfile> hardware_;
  std::map<std::pair<int64_t, int64_t>, uint64_t> results_;  // hashes, by shape
  bool same_ = true;
};

void add_options(CLI::App& app, Options& options) {
  EngineConfig& config = options.config;
  app.add_option("--model", options.model,
                 "random:NAME, or a checkpoint folder; by default the shipped model's shape, seen from the repository")
      ->capture_default_str();
  app.add_option("--layers", config.random.layers, "Only the first so many layers; 0: all");
  app.add_option("--random-seed", config.random.seed, "Of weights, routes and token ids");
  app.add_option("--expert-skew", config.random.expert_skew, "Tokens of the commonest expert over those of the rarest");
  app.add_option("--device", config.device, "cpu, cuda or cuda:N");
  app.add_option("--ranks", config.ranks, "Devices, or virtual ranks; all run the step at once");
  app.add_option("--threads", config.threads, "CPU threads");
  app.add_option("--dtype", options.dtype, "bf16 or f32")->check(CLI::IsMember({"bf16", "f32"}));
  app.add_option("--shapes", options.shapes, "Requests x tokens, separated by commas");
  app.add_option("--experts", options.experts, "Places of experts, separated by commas, each loaded once");
  app.add_option("--modes", options.modes, "gather-all, fetch-routed, or both");
  app.add_option("--sweep", options.sweep_tokens, "Instead of shapes: from an eighth to twice so many tokens a step");
  app.add_option("--sweep-context", options.sweep_context, "Tokens of a request of the sweep")
      ->check(CLI::Range(1, 1 << 22));
  app.add_option("--chunk-tokens", options.chunk_tokens, "Tokens that everything but attention works on at a time")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--warm-up", options.warm_up, "Steps before those that are measured")->check(CLI::Range(0, 1000));
  app.add_option("--steps", options.steps, "Steps that are measured")->check(CLI::Range(1, 1000));
  app.add_option("--warm-up-seconds", options.warm_up_seconds,
                 "More warm-up steps, until they have taken so long: a chip that was idle is cool, and faster");
  app.add_option("--cell-seconds", options.cell_seconds,
                 "Fewer steps, but three, where a measurement would take longer than this; 0: never");
  app.add_flag("--stages", options.stages, "One more step with events around each operation: where the time goes");
  app.add_option("--hardware", options.hardware,
                 "A name in data/hardware.yaml, for MFU and bounds; cuda: h200 by default");
  app.add_option("--json", options.json, "Append a JSON line a measurement to this file");
  app.add_option("--commit", options.commit, "Noted in the lines");
}

}  // namespace
}  // namespace zp::bench

int main(int argc, char** argv) {
  CLI::App app("Prefill of a whole model of random weights");
  zp::bench::Options options;
  zp::bench::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  options.config.model = options.model;
  options.config.compute = options.dtype == "f32" ? zp::ComputeType::kF32 : zp::ComputeType::kBf16;
  if (options.hardware.empty() && options.config.device != "cpu") options.hardware = "h200";
  options.command = zp::bench::command_of(argc, argv);
  try {
    return zp::bench::Bench(options).run() ? 0 : 1;
  } catch (const zp::Error& error) {
    fmt::print(stderr, "model_bench: {}\n", error.what());
    return 1;
  }
}
