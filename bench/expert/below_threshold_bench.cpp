// The degradation curve: tokens a step against throughput and exposed time, for each way to get tokens and experts
// together and for the automatic choice, at several link speeds. On paced virtual ranks, all of which run steps of the
// same size at once; figures are comparisons within one run.
//   build/bench/below_threshold_bench [--out FILE.jsonl --commit HASH] [--quick] [--placing gathered2|gathered4|host1]
//                                     [--threshold 64|256|1024]
// A link's speed is given as its threshold: the tokens of a layer that take as long to compute as its gather takes.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/driven_ranks.h"
#include "bench/expert/random_checkpoint.h"
#include "zp/base/error.h"
#include "zp/engine/setup.h"
#include "zp/shape/flops.h"

namespace zp::bench {
namespace {

constexpr uint32_t kSeed = 1;
constexpr double kTokenLayerSeconds = 200e-6;  // what one token of one layer takes to compute
constexpr int64_t kLatencyUs = 50;
constexpr int32_t kSequenceTokens = 64;

struct Placed {
  const char* name;
  ExpertMode mode;
  int32_t ranks;
};
constexpr std::array<Placed, 3> kPlaced = {{{"gathered2", ExpertMode::kGathered, 2},
                                            {"gathered4", ExpertMode::kGathered, 4},
                                            {"host1", ExpertMode::kHost, 1}}};

struct Options {
  std::string out;
  std::string commit;
  std::string command;
  std::string placing;
  std::string threshold;
  bool quick = false;
};

/// All ranks of one engine configuration.
class Ranks final {
 public:
  Ranks(const EngineConfig& config, const ModelFiles& files) : ranks_(config, files) { ranks_.make(); }

  [[nodiscard]] std::string device() const { return ranks_.description().device; }

  /// Runs `warm_up` + `steps` steps of `tokens` on every rank at once; the reports of the last `steps` of all ranks,
  /// the first of the first rank first.
  std::vector<StepReport> run(int64_t tokens, int32_t warm_up, int32_t steps) {
    // Others' steps are of different tokens, so that not all route alike.
    auto by_rank =
        ranks_.run(warm_up + steps, [&](int32_t rank, int32_t index) { return step_of(tokens, rank + 7 * index); });
    std::vector<StepReport> all;
    for (auto& reports : by_rank)
      for (size_t i = static_cast<size_t>(warm_up); i < reports.size(); ++i) all.push_back(std::move(reports[i]));
    return all;
  }

 private:
  [[nodiscard]] ForwardStep step_of(int64_t tokens, int32_t salt) const {
    ForwardStep step;
    for (int64_t row = 0; row < tokens; row += kSequenceTokens) {
      const auto length = static_cast<int32_t>(std::min<int64_t>(kSequenceTokens, tokens - row));
      step.sequences.push_back({.row = row, .tokens = length, .prefix = {}});
      for (int32_t p = 0; p < length; ++p) {
        const uint64_t id =
            (static_cast<uint64_t>(row + p) + 4099U * static_cast<uint64_t>(salt)) * 0x9E3779B97F4A7C15U;
        step.ids.push_back(static_cast<int32_t>((id >> 33U) % static_cast<uint64_t>(ranks_.shape().vocabulary)));
        step.positions.push_back(p);
      }
    }
    step.head_rows = {tokens - 1};
    step.candidate_offsets = {0, 1};
    step.candidates = {0};
    return step;
  }

  DrivenRanks ranks_;
};

/// The mean of the middle half. Ranks that send activations fall in and out of step, which medians jump between.
double midmean(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t cut = values.size() / 4;
  double sum = 0;
  for (size_t i = cut; i < values.size() - cut; ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - 2 * cut);
}

struct Figures {
  double seconds = 0;  // of a step, the midmean over steps and ranks
  double seconds_min = 0;
  double seconds_max = 0;
  double exposed_seconds = 0;
  StepMode ran_as = StepMode::kGatherAll;  // what most steps did
  double share = 0;                        // of the steps that did
};

Figures figures_of(const std::vector<StepReport>& reports) {
  std::vector<double> seconds;
  std::vector<double> exposed;
  std::array<int64_t, kStepModes> modes{};
  for (const StepReport& report : reports) {
    seconds.push_back(report.seconds);
    double sum = 0;
    for (const LayerWait& wait : report.waits) sum += static_cast<double>(wait.exposed_ns) * 1e-9;
    exposed.push_back(sum);
    ++modes[static_cast<size_t>(report.mode)];
  }
  const auto most = static_cast<size_t>(std::ranges::max_element(modes) - modes.begin());
  return {.seconds = midmean(seconds),
          .seconds_min = std::ranges::min(seconds),
          .seconds_max = std::ranges::max(seconds),
          .exposed_seconds = midmean(exposed),
          .ran_as = static_cast<StepMode>(most),
          .share = static_cast<double>(modes[most]) / static_cast<double>(reports.size())};
}

struct Way {
  const char* name;
  BelowThreshold below;
};
constexpr std::array<Way, 4> kWays = {{{"gather-all", BelowThreshold::kGatherAll},
                                       {"fetch-routed", BelowThreshold::kFetchRouted},
                                       {"send-activations", BelowThreshold::kSendActivations},
                                       {"auto", BelowThreshold::kAuto}}};

EngineConfig config_of(const std::filesystem::path& model, const Placed& placed, const ModelShape& shape) {
  EngineConfig config;
  config.model = model;
  config.threads = 1;
  config.compute = ComputeType::kF32;
  config.ranks = placed.ranks;
  config.step_tokens = 2048;
  config.chunk_tokens = 2048;
  config.max_context_tokens = 128;
  config.kv_cache_bytes = 0;
  config.experts.mode = placed.mode;
  const auto layer = static_cast<double>(linear_flops(shape, FeedForward::kMoe).total());
  config.paced_flops_per_second = layer / kTokenLayerSeconds;
  return config;
}

/// The bandwidth at which the remote experts of a layer come while `threshold_tokens` are computed.
uint64_t bandwidth_of(const EngineConfig& config, const ModelFiles& files, int64_t threshold_tokens) {
  const EngineSetup setup = make_setup(config, files);
  const double bytes = static_cast<double>(setup.placement.remote_max(0)) * static_cast<double>(setup.blob_bytes);
  return static_cast<uint64_t>(bytes / (static_cast<double>(threshold_tokens) * kTokenLayerSeconds));
}

using AllWays = std::vector<std::pair<Way, std::unique_ptr<Ranks>>>;

/// Steps of `tokens` by all ways; the reports of each. Ways take turns, so that what else the machine does hits all
/// alike; each turn begins with ranks in step. Before they are measured, the automatic choice has time to learn, and
/// links to end what earlier steps left. A turn is as many steps as a second holds: small ones, which suffer most from
/// the machine, are many.
std::vector<std::vector<StepReport>> run_in_turns(const AllWays& all, int64_t tokens, bool quick) {
  std::vector<int32_t> steps;
  for (const auto& [way, ranks] : all) {
    const double seconds = ranks->run(tokens, way.below == BelowThreshold::kAuto ? 6 : 1, 1).front().seconds;
    (void)ranks->run(tokens, static_cast<int32_t>(std::clamp(0.5 / seconds, 0.0, 30.0)), 1);
    steps.push_back(static_cast<int32_t>(std::clamp((quick ? 0.3 : 1.0) / seconds, 1.0, 12.0)));
  }
  std::vector<std::vector<StepReport>> reports(all.size());
  const int32_t rounds = quick || tokens >= 2048 ? 2 : 4;
  for (int32_t round = 0; round < rounds; ++round)
    for (size_t i = 0; i < all.size(); ++i)
      for (StepReport& report : all[i].second->run(tokens, 1, steps[i])) reports[i].push_back(std::move(report));
  return reports;
}

/// Runs all ways at one link speed, and writes a line for each cell. Returns the worst of auto over best.
double run_link(const EngineConfig& base, const ModelFiles& files, const Placed& placed, int64_t threshold_tokens,
                const Options& options, ResultFile& out) {
  EngineConfig config = base;
  const uint64_t bandwidth = bandwidth_of(base, files, threshold_tokens);
  config.experts.peer_link = {.bytes_per_second = bandwidth, .latency_us = kLatencyUs};
  config.experts.host_link = config.experts.peer_link;
  AllWays all;
  for (const Way& way : kWays) {
    if (way.below == BelowThreshold::kSendActivations && placed.mode != ExpertMode::kGathered) continue;
    config.experts.below_threshold = way.below;
    all.emplace_back(way, std::make_unique<Ranks>(config, files));
  }
  fmt::print("\n{}, threshold {} tokens ({:.1f} MB/s)\n{:>7}  {:<18}{:>10}{:>12}{:>10}  {}\n", placed.name,
             threshold_tokens, static_cast<double>(bandwidth) * 1e-6, "tokens", "mode", "ms/step", "tokens/s",
             "exposed", "ran as");
  double worst = 0;
  const std::vector<int64_t> sizes =
      options.quick ? std::vector<int64_t>{8, 128} : std::vector<int64_t>{8, 32, 128, 512, 2048};
  for (const int64_t tokens : sizes) {
    const std::vector<std::vector<StepReport>> reports = run_in_turns(all, tokens, options.quick);
    double best = 1e300;
    for (size_t i = 0; i < all.size(); ++i) {
      const Way& way = all[i].first;
      const bool chooses = way.below == BelowThreshold::kAuto;
      const Figures f = figures_of(reports[i]);
      const double rate = static_cast<double>(tokens * placed.ranks) / f.seconds;
      if (!chooses) best = std::min(best, f.seconds);
      std::string ran_as = fmt::format("{} {:.0f} %", to_string(f.ran_as), 100 * f.share);
      if (chooses) {
        worst = std::max(worst, f.seconds / best);
        ran_as += fmt::format("; auto / best {:.3f}", f.seconds / best);
      }
      fmt::print("{:>7}  {:<18}{:>10.2f}{:>12.0f}{:>9.1f}%  {}\n", tokens, way.name, 1e3 * f.seconds, rate,
                 100 * f.exposed_seconds / f.seconds, ran_as);
      std::fflush(stdout);
      out.write(
          {{"benchmark", "below_threshold"},
           {"placing", placed.name},
           {"ranks", placed.ranks},
           {"threshold_tokens", threshold_tokens},
           {"link_bytes_per_second", bandwidth},
           {"link_latency_us", kLatencyUs},
           {"tokens", tokens},
           {"mode", way.name},
           {"ran_as", to_string(f.ran_as)},
           {"ran_as_share", f.share},
           {"steps", reports[i].size()},
           {"step_seconds", f.seconds},
           {"step_seconds_min", f.seconds_min},
           {"step_seconds_max", f.seconds_max},
           {"exposed_seconds", f.exposed_seconds},
           {"tokens_per_second", rate},
           {"auto_over_best", chooses ? nlohmann::ordered_json(f.seconds / best) : nullptr},
           {"token_layer_seconds", kTokenLayerSeconds}},
          {.command = options.command, .commit = options.commit, .device = all[i].second->device(), .seed = kSeed},
          hash_of(reports[i].front().result));
    }
  }
  return worst;
}

Options parse(int argc, char** argv) {
  Options options;
  options.command = command_of(argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--out" && i + 1 < argc) {
      options.out = argv[++i];
    } else if (argument == "--commit" && i + 1 < argc) {
      options.commit = argv[++i];
    } else if (argument == "--placing" && i + 1 < argc) {
      options.placing = argv[++i];
    } else if (argument == "--threshold" && i + 1 < argc) {
      options.threshold = argv[++i];
    } else {
      fail(ErrorCode::kInvalidArgument, "unknown argument '{}'", argument);
    }
  }
  return options;
}

int run(const Options& options) {
  ResultFile out(options.out, options.commit);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("zp_below_threshold_{}", ::getpid());
  std::filesystem::create_directories(folder);
  write_random_checkpoint(folder, {}, kSeed);
  double worst = 0;
  {
    const ModelFiles files(folder);
    for (const Placed& placed : kPlaced) {
      if (!options.placing.empty() && options.placing != placed.name) continue;
      const EngineConfig config = config_of(folder, placed, files.shape());
      for (const int64_t threshold : {64, 256, 1024})
        if (options.threshold.empty() || options.threshold == std::to_string(threshold))
          worst = std::max(worst, run_link(config, files, placed, threshold, options, out));
    }
  }
  std::filesystem::remove_all(folder);
  fmt::print("\nthe automatic choice is at most {:.1f} % worse than the best mode\n", 100 * (worst - 1));
  return 0;
}

}  // namespace
}  // namespace zp::bench

int main(int argc, char** argv) {
  try {
    return zp::bench::run(zp::bench::parse(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
