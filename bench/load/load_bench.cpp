// How fast a checkpoint's weights get to where steps use them, beside what a plain copy from pinned host memory
// reaches.
//   build/bench/load_bench [--device cuda] [--model Qwen3-30B-A3B --layers 17] [--folder DIR] [--experts resident|host]
//                          [--threads N] [--repeat N] [--json FILE --commit HASH]
// Without --model a small checkpoint is written to a folder of its own, which goes with the program. With --folder the
// checkpoint is written there unless there is one, and stays. The first repetition may read from disk; the others read
// what the system kept of the files.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/load/bulk_checkpoint.h"
#include "bench/result_lines.h"
#include "zp/base/clock.h"
#include "zp/base/error.h"
#include "zp/base/host_info.h"
#include "zp/base/human.h"
#include "zp/engine/rank_group.h"
#include "zp/engine/setup.h"
#include "zp/shape/known_models.h"

namespace zp::bench {
namespace {

struct Options {
  std::string device = "cpu";
  std::string model;
  std::string folder;
  std::string experts = "resident";
  std::string json;
  std::string commit;
  std::string command;
  int32_t layers = 0;
  int32_t threads = 0;
  int32_t repeat = 3;
};

ModelShape small_shape() {
  ModelShape shape = find_known_model("Qwen3-30B-A3B")->shape;
  shape.hidden = 512;
  shape.query_heads = 8;
  shape.kv_heads = 2;
  shape.head_dim = 64;
  shape.experts = 32;
  shape.expert_intermediate = 256;
  shape.vocabulary = 4096;
  shape.layers = 4;
  return shape;
}

ModelShape shape_of(const Options& options) {
  ModelShape shape = small_shape();
  if (!options.model.empty()) {
    const KnownModel* known = find_known_model(options.model);
    if (known == nullptr)
      fail(ErrorCode::kInvalidArgument, "model '{}' is not known; known are {}", options.model, known_model_names());
    shape = known->shape;
  }
  if (options.layers > 0) shape.layers = options.layers;
  return shape;
}

// Bytes a second from pinned memory of the host to the device, in copies of 256 MiB.
double copy_rate(Device& device) {
  constexpr size_t kBytes = size_t{256} << 20;
  constexpr int kCopies = 16;
  const Buffer from = device.allocate(kBytes, MemoryKind::kPinnedHost);
  const Buffer to = device.allocate(kBytes);
  std::memset(from.data(), 1, kBytes);
  const auto stream = device.create_stream("copy", StreamUse::kHostLink);
  const auto copy = [&](int count) {
    for (int i = 0; i < count; ++i) stream->copy(to.data(), from.data(), kBytes);
    stream->synchronize();
  };
  copy(2);
  const SteadyClock clock;
  const int64_t begin_ns = clock.now_ns();
  copy(kCopies);
  return static_cast<double>(kBytes) * kCopies / (static_cast<double>(clock.now_ns() - begin_ns) * 1e-9);
}

// One loading of everything; its rate in bytes a second.
struct Loading {
  uint64_t bytes = 0;
  double seconds = 0;
  [[nodiscard]] double rate() const { return static_cast<double>(bytes) / seconds; }
};
Loading load_once(const EngineConfig& config) {
  const ModelFiles files(config.model);
  const EngineSetup setup = make_setup(config, files);
  const RankGroup group(setup, files);
  return {group.weight_bytes(), group.load_seconds()};
}

ExpertMode mode_of(const std::string& experts) {
  if (experts == "resident") return ExpertMode::kResident;
  if (experts == "host") return ExpertMode::kHost;
  fail(ErrorCode::kInvalidArgument, "--experts is '{}'; it must be resident or host", experts);
}

void run(const Options& options) {
  ResultFile results(options.json, options.commit);
  const bool own = options.folder.empty();
  const std::filesystem::path folder =
      own ? std::filesystem::temp_directory_path() / fmt::format("zp_load_bench_{}", ::getpid())
          : std::filesystem::path(options.folder);
  std::filesystem::create_directories(folder);
  struct Remove {
    bool wanted;
    const std::filesystem::path& folder;
    ~Remove() {
      std::error_code ignored;
      if (wanted) std::filesystem::remove_all(folder, ignored);
    }
  } const remove{own, folder};
  if (!std::filesystem::exists(folder / "config.json"))
    write_bulk_checkpoint(folder, shape_of(options), std::min(usable_cores(), 8));

  EngineConfig config;
  config.model = folder;
  config.device = options.device;
  config.threads = options.threads;
  config.compute = ComputeType::kBf16;
  config.max_context_tokens = 4096;
  config.kv_cache_bytes = 0;
  config.experts.mode = mode_of(options.experts);
  const auto [copy, device] = [&] {
    const std::unique_ptr<Device> made = make_device(parse_device(options.device));
    return std::pair(copy_rate(*made), made->description());
  }();
  std::vector<double> rates;
  Loading last;
  for (int32_t i = 0; i < options.repeat; ++i) {
    last = load_once(config);
    fmt::print("load {}: {} in {:.2f} s, {:.2f} GB/s; a plain copy from pinned memory {:.2f} GB/s: {:.0f} %\n", i,
               human_bytes(last.bytes), last.seconds, last.rate() * 1e-9, copy * 1e-9, 100 * last.rate() / copy);
    rates.push_back(last.rate());
  }
  std::ranges::sort(rates);
  // What is loaded is checked by tests; the bytes of the checkpoint are the same everywhere.
  results.write({{"bench", "load"},
                 {"model", options.model.empty() ? "small" : options.model},
                 {"layers", ModelFiles(folder).shape().layers},
                 {"dtype", "bf16"},
                 {"gpus", 1},
                 {"experts", options.experts},
                 {"threads", options.threads > 0 ? options.threads : usable_cores()},
                 {"bytes", last.bytes},
                 {"seconds", last.seconds},
                 {"gb_per_s", last.rate() * 1e-9},
                 {"gb_per_s_median", rates[rates.size() / 2] * 1e-9},
                 {"copy_gb_per_s", copy * 1e-9}},
                {.command = options.command, .commit = options.commit, .device = device, .seed = kCheckpointSeed},
                std::nullopt);
}

}  // namespace
}  // namespace zp::bench

int main(int argc, char** argv) {
  zp::bench::Options options;
  CLI::App app("Loading of weights, against plain copies from pinned memory");
  app.add_option("--device", options.device, "cpu, cuda or cuda:N");
  app.add_option("--model", options.model, "A known model's name, whose shape is taken; none: a small one");
  app.add_option("--layers", options.layers, "Cut to this many layers");
  app.add_option("--folder", options.folder, "Where the checkpoint is or will be, to be kept");
  app.add_option("--experts", options.experts, "resident or host");
  app.add_option("--threads", options.threads, "Threads that load; 0: all cores");
  app.add_option("--repeat", options.repeat, "Loadings")->check(CLI::Range(1, 100));
  app.add_option("--json", options.json, "Append a JSON line to this file");
  app.add_option("--commit", options.commit, "Noted in the line");
  CLI11_PARSE(app, argc, argv);
  options.command = zp::bench::command_of(argc, argv);
  try {
    zp::bench::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "load_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
