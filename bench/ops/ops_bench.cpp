// GFLOP/s of a core, for the operations at the shapes of Qwen3-30B-A3B and of a tiny model, run on all usable cores.
//   build/bench/ops_bench --benchmark_repetitions=8 --benchmark_enable_random_interleaving
//     [--benchmark_out=FILE --commit HASH]
// Rates are of processor time, summed over threads: they hold on a machine that others use too, as far as those leave
// the caches alone. The time column is what a caller waits. Take best and median over the repetitions, and read them
// beside the ceilings (ceiling_bench.cpp).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/model_sizes.h"
#include "bench/result_lines.h"
#include "zp/device/cpu/cpu_device.h"
#include "zp/ops/cpu/cpu_ops.h"
#include "zp/tensor/tensor.h"

namespace zp {
namespace {

using bench::ModelSizes;

constexpr uint64_t kSeed = 1;
constexpr ModelSizes kTiny{.name = "tiny",
                           .hidden = 192,
                           .q_heads = 4,
                           .kv_heads = 2,
                           .head_dim = 48,
                           .experts = 16,
                           .chosen = 4,
                           .intermediate = 128,
                           .vocabulary = 4096};

/// A device with operations, and tensors filled with noise.
class Bench final {
 public:
  Bench(DType activation, const ModelSizes& model, int64_t tokens)
      : device_(0, 0),
        ops_(device_, cpu::detect_isa(), activation,
             {.moe_tokens = tokens,
              .experts_per_token = model.chosen,
              .experts = model.experts,
              .expert = {.hidden = model.hidden, .intermediate = model.intermediate},
              .head_rows = tokens,
              .vocabulary = model.vocabulary}),
        stream_(device_.create_stream("bench")) {}

  [[nodiscard]] cpu::CpuOps& ops() { return ops_; }
  [[nodiscard]] Stream& stream() { return *stream_; }
  [[nodiscard]] Device& device() { return device_; }

  [[nodiscard]] Tensor noise(DType dtype, Shape shape) {
    Tensor tensor(device_, dtype, shape);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (int64_t i = 0; i < shape.elements(); ++i) {
      if (dtype == DType::kBf16) {
        tensor.view().as<Bf16>()[i] = to_bf16(uniform(engine_));
      } else {
        tensor.view().as<float>()[i] = uniform(engine_);
      }
    }
    return tensor;
  }
  [[nodiscard]] PackedMatrix noise_matrix(int64_t n, int64_t k) {
    const Tensor weight = noise(DType::kBf16, {n, k});
    const ConstTensorView view = weight.view();
    return ops_.pack_matrix({&view, 1});
  }
  [[nodiscard]] int64_t integer(int64_t below) { return std::uniform_int_distribution<int64_t>(0, below - 1)(engine_); }

 private:
  cpu::CpuDevice device_;
  cpu::CpuOps ops_;
  std::unique_ptr<Stream> stream_;
  std::mt19937_64 engine_{kSeed};
};

// `out`: what every iteration made anew, whose hash is told.
void report(benchmark::State& state, Bench& bench, double flops, const ConstTensorView& out) {
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  bench::OutputHash hash;
  hash.add(std::span(out.data(), out.size_bytes()));
  state.SetLabel(fmt::format("{}, output {:016x}", bench.ops().description(), hash.value()));
}

void linear(benchmark::State& state, DType activation, const ModelSizes& model, int64_t n, int64_t k) {
  const int64_t tokens = state.range(0);
  Bench bench(activation, model, 1);
  const Tensor x = bench.noise(activation, {tokens, k});
  const PackedMatrix weight = bench.noise_matrix(n, k);
  const Tensor out(bench.device(), DType::kF32, {tokens, n});
  for (auto _ : state) {
    bench.ops().linear(bench.stream(), {.x = x.view(), .weight = &weight, .out = out.view()});
    bench.stream().synchronize();
  }
  report(state, bench, 2.0 * static_cast<double>(tokens * n * k), out.view());
}

void moe(benchmark::State& state, DType activation, const ModelSizes& model) {
  const int64_t tokens = state.range(0);
  Bench bench(activation, model, tokens);
  const ExpertSize size{.hidden = model.hidden, .intermediate = model.intermediate};
  const size_t blob_bytes = bench.ops().expert_blob_bytes(size);
  // A quarter of the experts have bytes of their own: more than the caches hold, less than all of memory.
  const int64_t distinct = ceil_div<int64_t>(model.experts, 4);
  const Buffer blobs = bench.device().allocate(static_cast<size_t>(distinct) * blob_bytes);
  const Tensor gate = bench.noise(DType::kBf16, {size.intermediate, size.hidden});
  const Tensor down = bench.noise(DType::kBf16, {size.hidden, size.intermediate});
  std::vector<const std::byte*> experts;
  for (int64_t e = 0; e < model.experts; ++e) {
    const auto offset = static_cast<size_t>(e % distinct) * blob_bytes;
    if (e < distinct)
      bench.ops().pack_expert(gate.view(), gate.view(), down.view(), blobs.bytes().subspan(offset, blob_bytes));
    experts.push_back(blobs.data() + offset);
  }
  const Tensor x = bench.noise(activation, {tokens, model.hidden});
  const Tensor ids(bench.device(), DType::kI32, {tokens, model.chosen});
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t first = bench.integer(model.experts);
    const int64_t stride = 2 * bench.integer(model.experts / 2) + 1;  // odd, so the experts of a token are distinct
    for (int64_t j = 0; j < model.chosen; ++j)
      ids.view().as<int32_t>()[t * model.chosen + j] = static_cast<int32_t>((first + j * stride) % model.experts);
  }
  const Tensor weights = bench.noise(DType::kF32, {tokens, model.chosen});
  const Tensor out(bench.device(), DType::kF32, {tokens, model.hidden});
  for (auto _ : state) {
    bench.ops().moe(bench.stream(), {.x = x.view(),
                                     .ids = ids.view(),
                                     .weights = weights.view(),
                                     .experts = experts,
                                     .size = size,
                                     .out = out.view()});
    bench.stream().synchronize();
  }
  report(state, bench, 6.0 * static_cast<double>(tokens * model.chosen * size.hidden * size.intermediate), out.view());
}

void attention(benchmark::State& state, DType activation, const ModelSizes& model) {
  const auto tokens = static_cast<int32_t>(state.range(0));
  Bench bench(activation, model, 1);
  const Tensor q = bench.noise(activation, {tokens, model.q_heads, model.head_dim});
  const Tensor k = bench.noise(activation, {tokens, model.kv_heads, model.head_dim});
  const Tensor v = bench.noise(activation, {tokens, model.kv_heads, model.head_dim});
  const Tensor out(bench.device(), activation, {tokens, model.q_heads, model.head_dim});
  const std::vector<AttentionSequence> sequences = {{.row = 0, .tokens = tokens, .prefix = {}}};
  for (auto _ : state) {
    bench.ops().attention(
        bench.stream(),
        {.q = q.view(), .k = k.view(), .v = v.view(), .sequences = sequences, .scale = 0.1f, .out = out.view()});
    bench.stream().synchronize();
  }
  // Only what is seen counts: half of the square.
  const double pairs = 0.5 * static_cast<double>(tokens) * static_cast<double>(tokens + 1);
  report(state, bench, 4.0 * pairs * static_cast<double>(model.q_heads * model.head_dim), out.view());
}

void head(benchmark::State& state, DType activation, const ModelSizes& model) {
  const int64_t rows = state.range(0);
  Bench bench(activation, model, rows);
  const Tensor x = bench.noise(activation, {rows, model.hidden});
  const PackedMatrix weight = bench.noise_matrix(model.vocabulary, model.hidden);
  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> candidates;
  for (int64_t r = 0; r < rows; ++r) {
    candidates.push_back(static_cast<int32_t>(bench.integer(model.vocabulary)));
    candidates.push_back(static_cast<int32_t>(bench.integer(model.vocabulary)));
    offsets.push_back(std::ssize(candidates));
  }
  const Tensor logits(bench.device(), DType::kF32, {std::ssize(candidates)});
  const Tensor log_sum_exp(bench.device(), DType::kF32, {rows});
  for (auto _ : state) {
    bench.ops().head(bench.stream(), {.x = x.view(),
                                      .weight = &weight,
                                      .offsets = offsets,
                                      .candidates = candidates,
                                      .logits = logits.view(),
                                      .log_sum_exp = log_sum_exp.view()});
    bench.stream().synchronize();
  }
  report(state, bench, 2.0 * static_cast<double>(rows * model.vocabulary * model.hidden), logits.view());
}

// Everything of a layer that is no matrix product: tokens a second of processor time.
void rows(benchmark::State& state, DType activation, const ModelSizes& model) {
  const int64_t tokens = state.range(0);
  Bench bench(activation, model, 1);
  const int64_t heads = model.q_heads + 2 * model.kv_heads;
  const Tensor residual = bench.noise(DType::kF32, {tokens, model.hidden});
  const Tensor delta = bench.noise(DType::kF32, {tokens, model.hidden});
  const Tensor weight = bench.noise(DType::kF32, {model.hidden});
  const Tensor normed(bench.device(), activation, {tokens, model.hidden});
  const Tensor qkv = bench.noise(DType::kF32, {tokens, heads * model.head_dim});
  const Tensor frequencies = bench.noise(DType::kF32, {model.head_dim / 2});
  const Tensor norm = bench.noise(DType::kF32, {model.head_dim});
  const Tensor q(bench.device(), activation, {tokens, model.q_heads, model.head_dim});
  const Tensor k(bench.device(), activation, {tokens, model.kv_heads, model.head_dim});
  const Tensor v(bench.device(), activation, {tokens, model.kv_heads, model.head_dim});
  const Tensor logits = bench.noise(DType::kF32, {tokens, model.experts});
  const Tensor ids(bench.device(), DType::kI32, {tokens, model.chosen});
  const Tensor weights(bench.device(), DType::kF32, {tokens, model.chosen});
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<int32_t>(t));
  for (auto _ : state) {
    for (int i = 0; i < 2; ++i)
      bench.ops().residual_norm(bench.stream(), {.residual = residual.view(),
                                                 .delta = delta.view(),
                                                 .weight = weight.view(),
                                                 .eps = 1e-6f,
                                                 .out = normed.view()});
    bench.ops().rope(bench.stream(), {.qkv = qkv.view(),
                                      .positions = positions,
                                      .inverse_frequencies = frequencies.view(),
                                      .q_norm = norm.view(),
                                      .k_norm = norm.view(),
                                      .eps = 1e-6f,
                                      .q = q.view(),
                                      .k = k.view(),
                                      .v = v.view()});
    bench.ops().route(bench.stream(),
                      {.logits = logits.view(), .normalize = true, .ids = ids.view(), .weights = weights.view()});
    bench.stream().synchronize();
  }
  state.SetItemsProcessed(state.iterations() * tokens);
  state.SetLabel(std::string(bench.ops().description()));
}

void add(const std::string& name, void (*function)(benchmark::State&, DType, const ModelSizes&),
         const ModelSizes& model, const std::vector<int64_t>& sizes) {
  for (const DType type : {DType::kBf16, DType::kF32}) {
    auto* made = benchmark::RegisterBenchmark((name + "/" + std::string(to_string(type))).c_str(),
                                              [=](benchmark::State& state) { function(state, type, model); });
    for (const int64_t size : sizes) made->Arg(size);
    made->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);
  }
}

void linear_qkv(benchmark::State& state, DType type, const ModelSizes& model) {
  linear(state, type, model, (model.q_heads + 2 * model.kv_heads) * model.head_dim, model.hidden);
}
void linear_router(benchmark::State& state, DType type, const ModelSizes& model) {
  linear(state, type, model, model.experts, model.hidden);
}

void add_all() {
  const ModelSizes qwen30b = bench::sizes_of("Qwen3-30B-A3B", "qwen30b");
  add("qwen30b/linear_qkv", linear_qkv, qwen30b, {16, 128, 512});
  add("qwen30b/linear_router", linear_router, qwen30b, {512});
  add("qwen30b/moe", moe, qwen30b, {16, 256, 1024});
  add("qwen30b/attention", attention, qwen30b, {128, 1024});
  add("qwen30b/head", head, qwen30b, {1, 32});
  add("qwen30b/rows", rows, qwen30b, {512});
  add("tiny/linear_qkv", linear_qkv, kTiny, {16, 128, 512});
  add("tiny/moe", moe, kTiny, {16, 128, 1024});
  add("tiny/attention", attention, kTiny, {128, 1024});
  add("tiny/head", head, kTiny, {32});
  add("tiny/rows", rows, kTiny, {512});
}

// Takes "--commit HASH" out of the arguments, which are Google Benchmark's.
std::string take_commit(std::vector<char*>& arguments) {
  for (size_t i = 1; i + 1 < arguments.size(); ++i) {
    if (std::string_view(arguments[i]) != "--commit") continue;
    std::string commit = arguments[i + 1];
    arguments.erase(arguments.begin() + static_cast<int64_t>(i), arguments.begin() + static_cast<int64_t>(i) + 2);
    return commit;
  }
  return {};
}

// What a result says of its run goes into the context of Google Benchmark's file.
int run(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  const std::string commit = take_commit(arguments);
  const auto writes = [](const char* argument) { return std::string_view(argument).starts_with("--benchmark_out="); };
  if (commit.empty() && std::ranges::any_of(arguments, writes)) {
    fmt::print(stderr, "ops_bench: a file is to be written, and --commit does not say of which commit\n");
    return 1;
  }
  benchmark::AddCustomContext("command", bench::command_of(argc, argv));
  benchmark::AddCustomContext("commit", commit.empty() ? "not named" : commit);
  benchmark::AddCustomContext("device", cpu::CpuDevice(0, 0).description());
  benchmark::AddCustomContext("seed", std::to_string(kSeed));
  add_all();
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace zp

int main(int argc, char** argv) { return zp::run(argc, argv); }
