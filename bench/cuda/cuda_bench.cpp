// What the operations reach on a GPU at the shapes of real models: a table, and a JSON line a measurement.
//   build-cuda/bench/cuda_bench [--json FILE] [--only PREFIX] [--device N]
// A figure is the median of five samples, each of as many runs as fill some tens of milliseconds, on random data, timed
// by events on the stream.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "zp/base/error.h"
#include "zp/device/cuda/cuda_device.h"
#include "zp/ops/cuda/cuda_ops.h"
#include "zp/ops/cuda/expert_layout.h"
#include "zp/ops/cuda/moe_kernels.h"
#include "zp/tensor/tensor.h"

namespace zp {
namespace {

struct Model {
  const char* name;
  int64_t hidden;
  int64_t q_heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t experts;
  int64_t chosen;
  int64_t intermediate;
  int64_t vocabulary;
  int64_t layers;
};
constexpr Model kQwen30B{"30B", 2048, 32, 4, 128, 128, 8, 768, 151'936, 48};
constexpr Model kQwen235B{"235B", 4096, 64, 4, 128, 128, 8, 1536, 151'936, 94};

constexpr int64_t kNoiseElements = int64_t{32} << 20;

OpsLimits limits_of(const Model& m, int64_t tokens) {
  return {.moe_tokens = tokens,
          .experts_per_token = m.chosen,
          .experts = m.experts,
          .expert = {m.hidden, m.intermediate},
          .head_dim = m.head_dim,
          .linear_k = m.q_heads * m.head_dim,
          .head_rows = 64,
          .vocabulary = m.vocabulary};
}

/// A GPU, a stream, and where results go.
class Bench final {
 public:
  Bench(int32_t device, std::string only, const std::string& json)
      : device_(device), stream_(device_.create_stream("bench")), only_(std::move(only)) {
    if (!json.empty()) {
      file_ = std::fopen(json.c_str(), "w");
      if (file_ == nullptr) fail(ErrorCode::kIo, "cannot write {}", json);
    }
    fmt::print("{}\n{:<44} {:>10} {:>12} {:>10}\n", device_.description(), "what", "ms", "rate", "unit");
    std::mt19937 engine(1);
    std::normal_distribution<float> normal(0.0f, 0.5f);
    std::vector<Bf16> noise(static_cast<size_t>(kNoiseElements));
    for (Bf16& value : noise) value = to_bf16(normal(engine));
    noise_ = device_.allocate(noise.size() * sizeof(Bf16));
    stream_->copy(noise_.data(), noise.data(), noise_.size_bytes());
    stream_->synchronize();
  }
  ~Bench() {
    if (file_ != nullptr) (void)std::fclose(file_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  [[nodiscard]] cuda::CudaDevice& device() { return device_; }
  [[nodiscard]] cuda::CudaStream& stream() { return dynamic_cast<cuda::CudaStream&>(*stream_); }
  [[nodiscard]] bool wants(const std::string& name) const { return name.starts_with(only_); }

  void fill_with_noise(const Buffer& buffer) {
    for (size_t begin = 0; begin < buffer.size_bytes(); begin += noise_.size_bytes())
      stream_->copy(buffer.data() + begin, noise_.data(), std::min(noise_.size_bytes(), buffer.size_bytes() - begin));
  }
  /// bf16: normal values. f32: normal bf16 values in pairs, which are normal too, as numbers.
  [[nodiscard]] Tensor noise(DType dtype, const Shape& shape) {
    Tensor tensor(device_, dtype, shape);
    const size_t size_bytes = tensor.view().size_bytes();
    for (size_t begin = 0; begin < size_bytes; begin += noise_.size_bytes())
      stream_->copy(tensor.view().data() + begin, noise_.data(), std::min(noise_.size_bytes(), size_bytes - begin));
    return tensor;
  }
  template <typename T>
  [[nodiscard]] Tensor upload(const std::vector<T>& values, const Shape& shape) {
    Tensor tensor(device_, kDTypeOf<T>, shape);
    stream_->copy(tensor.view().data(), values.data(), values.size() * sizeof(T));
    stream_->synchronize();
    return tensor;
  }
  [[nodiscard]] PackedMatrix matrix(int64_t n, int64_t k) {
    PackedMatrix packed{device_.allocate(static_cast<size_t>(n * k) * 2), n, k};
    fill_with_noise(packed.buffer);
    return packed;
  }

  /// Median milliseconds of one run.
  double time(const std::function<void()>& run) {
    run();
    int64_t runs = 1;
    const double once = sample(run, 1);
    if (once < 20) runs = std::clamp<int64_t>(static_cast<int64_t>(20 / std::max(once, 1e-3)), 1, 200);
    std::vector<double> samples;
    for (int i = 0; i < 5; ++i) samples.push_back(sample(run, runs));
    std::ranges::sort(samples);
    return samples[2];
  }
  /// `per_ms`: the work of one run, in units such that work / ms is the rate in `unit`.
  void report(const std::string& name, double ms, double work, const char* unit) {
    const double rate = ms > 0 ? work / ms : 0;
    fmt::print("{:<44} {:>10.4f} {:>12.1f} {:>10}\n", name, ms, rate, unit);
    (void)std::fflush(stdout);
    if (file_ == nullptr) return;
    fmt::print(file_, "{{\"bench\":\"{}\",\"ms\":{:.6f},\"rate\":{:.3f},\"unit\":\"{}\",\"device\":\"{}\"}}\n", name,
               ms, rate, unit, device_.description());
    (void)std::fflush(file_);
  }
  void measure(const std::string& name, double work, const char* unit, const std::function<void()>& run) {
    if (wants(name)) report(name, time(run), work, unit);
  }

 private:
  double sample(const std::function<void()>& run, int64_t runs) {
    const Event begin = stream_->record(EventTiming::kTimed);
    for (int64_t i = 0; i < runs; ++i) run();
    const Event end = stream_->record(EventTiming::kTimed);
    end.wait();
    return static_cast<double>(*end.reached_ns() - *begin.reached_ns()) * 1e-6 / static_cast<double>(runs);
  }

  cuda::CudaDevice device_;
  std::unique_ptr<Stream> stream_;
  std::string only_;
  std::FILE* file_ = nullptr;
  Buffer noise_;
};

constexpr double kTera = 1e9;  // FLOP a ms that make a TFLOP/s

void bench_copies(Bench& bench) {
  if (!bench.wants("copy")) return;
  constexpr size_t kBytes = size_t{4} << 30;
  const auto begin = std::chrono::steady_clock::now();
  const Buffer host = bench.device().allocate(kBytes, MemoryKind::kPinnedHost);
  const auto end = std::chrono::steady_clock::now();
  bench.report("copy/pin 4 GiB", std::chrono::duration<double, std::milli>(end - begin).count(), 4.295e3, "GB/s");
  const Buffer device = bench.device().allocate(kBytes);
  bench.measure("copy/host to device 4 GiB", 4.295e3, "GB/s",
                [&] { bench.stream().copy(device.data(), host.data(), kBytes); });
  bench.measure("copy/device to device 2 GiB (read + write)", 4.295, "TB/s",
                [&] { bench.stream().copy(device.data() + kBytes / 2, device.data(), kBytes / 2); });
}

void bench_dense(Bench& bench) {
  cuda::CudaOps ops(bench.device(), {});
  struct Shape3 {
    int64_t tokens, n, k;
  };
  for (const auto& [tokens, n, k] : {Shape3{8192, 8192, 8192},
                                     {16384, 9216, 4096},
                                     {16384, 4096, 8192},
                                     {16384, 5120, 2048},
                                     {16384, 2048, 4096},
                                     {16384, 128, 2048},
                                     {2048, 5120, 2048}}) {
    for (const DType type : {DType::kF32, DType::kBf16}) {
      const std::string name = fmt::format("dense/{}x{}x{} {}", tokens, n, k, to_string(type));
      if (!bench.wants(name)) continue;
      const Tensor x = bench.noise(DType::kBf16, {tokens, k});
      const PackedMatrix weight = bench.matrix(n, k);
      Tensor out(bench.device(), type, {tokens, n});
      bench.measure(name, 2.0 * static_cast<double>(tokens * n * k) / kTera, "TFLOP/s",
                    [&] { ops.linear(bench.stream(), {.x = x.view(), .weight = &weight, .out = out.view()}); });
    }
  }
}

// A layer of experts with tokens routed evenly at random.
struct Experts {
  Experts(Bench& bench, const Model& m, int64_t tokens)
      : blob_bytes(cuda::ExpertLayout(m.hidden, m.intermediate).blob_bytes()),
        memory(bench.device().allocate(blob_bytes * static_cast<size_t>(m.experts))) {
    bench.fill_with_noise(memory);
    for (int64_t e = 0; e < m.experts; ++e) blobs.push_back(memory.data() + static_cast<size_t>(e) * blob_bytes);
    std::mt19937 engine(2);
    std::vector<int32_t> chosen_ids;
    std::vector<float> chosen_weights;
    std::vector<int32_t> order;
    for (int32_t e = 0; e < m.experts; ++e) order.push_back(e);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t j = 0; j < m.chosen; ++j) {
        std::swap(order[static_cast<size_t>(j)],
                  order[std::uniform_int_distribution<size_t>(static_cast<size_t>(j), order.size() - 1)(engine)]);
        chosen_ids.push_back(order[static_cast<size_t>(j)]);
        chosen_weights.push_back(0.125f);
      }
    ids = bench.upload(chosen_ids, {tokens, m.chosen});
    weights = bench.upload(chosen_weights, {tokens, m.chosen});
  }
  size_t blob_bytes;
  Buffer memory;
  std::vector<const std::byte*> blobs;
  Tensor ids;
  Tensor weights;
};

void bench_moe(Bench& bench, const Model& m, int64_t tokens) {
  const std::string prefix = fmt::format("moe/{} {} tokens", m.name, tokens);
  if (!bench.wants(prefix)) return;
  const Experts experts(bench, m, tokens);
  const Tensor x = bench.noise(DType::kBf16, {tokens, m.hidden});
  Tensor out(bench.device(), DType::kF32, {tokens, m.hidden});
  cuda::CudaOps ops(bench.device(), limits_of(m, tokens));
  const double rows = static_cast<double>(tokens * m.chosen);
  const double flops = 2 * rows * static_cast<double>(m.hidden * m.intermediate) / kTera;
  bench.measure(prefix + ": whole", 3 * flops, "TFLOP/s", [&] {
    ops.moe(bench.stream(), {.x = x.view(),
                             .ids = experts.ids.view(),
                             .weights = experts.weights.view(),
                             .experts = experts.blobs,
                             .size = {m.hidden, m.intermediate},
                             .out = out.view()});
  });
  // The parts, on the sorted slots that the whole leaves behind in memory of our own.
  const cuda::ExpertLayout layout(m.hidden, m.intermediate);
  const int64_t slots = tokens * m.chosen;
  Tensor pointers(bench.device(), DType::kI32, {2 * m.experts});
  bench.stream().copy(pointers.view().data(), experts.blobs.data(), experts.blobs.size() * sizeof(std::byte*));
  Tensor counts(bench.device(), DType::kI32, {4 * (m.experts + 1) + 1});
  auto* count = counts.view().as<int32_t>();
  Tensor slot_of(bench.device(), DType::kI32, {slots});
  Tensor token_of(bench.device(), DType::kI32, {slots});
  const cudaStream_t stream = bench.stream().get();
  const auto sort = [&] {
    cuda::launch_moe_sort({.ids = experts.ids.view().as<int32_t>(),
                           .assignments = slots,
                           .chosen = static_cast<int32_t>(m.chosen),
                           .experts = static_cast<int32_t>(m.experts),
                           .counts = count,
                           .cursors = count + m.experts + 1,
                           .offsets = count + 2 * (m.experts + 1),
                           .tile_starts = count + 3 * (m.experts + 1),
                           .slots = slot_of.view().as<int32_t>(),
                           .tokens = token_of.view().as<int32_t>()},
                          stream);
  };
  sort();
  bench.measure(prefix + ": sort", static_cast<double>(slots) * 1e-6, "G/s", sort);
  Tensor inner(bench.device(), DType::kBf16, {slots, layout.inner_columns()});
  Tensor y(bench.device(), DType::kBf16, {slots, m.hidden});
  const auto bits = [](Tensor& tensor) { return reinterpret_cast<cuda::Bits16*>(tensor.view().data()); };
  cuda::GroupedGemmParams params{.x = reinterpret_cast<const cuda::Bits16*>(x.view().data()),
                                 .rows = token_of.view().as<int32_t>(),
                                 .x_stride = m.hidden,
                                 .k = m.hidden,
                                 .experts = reinterpret_cast<std::byte* const*>(pointers.view().data()),
                                 .weight_offset = 0,
                                 .n_tiles = static_cast<int32_t>(layout.gate_up_n_tiles),
                                 .k_tiles = static_cast<int32_t>(layout.gate_up_k_tiles),
                                 .offsets = count + 2 * (m.experts + 1),
                                 .tile_starts = count + 3 * (m.experts + 1),
                                 .next_tile = count + 4 * (m.experts + 1),
                                 .expert_count = static_cast<int32_t>(m.experts),
                                 .gate_up = true,
                                 .out = bits(inner),
                                 .out_stride = layout.inner_columns(),
                                 .out_columns = m.intermediate,
                                 .slots = slots};
  const int32_t multiprocessors = bench.device().multiprocessors();
  bench.measure(prefix + ": gate+up", 2 * flops, "TFLOP/s",
                [&] { cuda::launch_grouped_gemm(params, multiprocessors, stream); });
  // silu * up of random rows would overflow: the second product gets noise of its own.
  const Tensor noise = bench.noise(DType::kBf16, {slots, layout.inner_columns()});
  params.x = reinterpret_cast<const cuda::Bits16*>(noise.view().data());
  params.rows = nullptr;
  params.x_stride = params.k = layout.inner_columns();
  params.weight_offset = layout.down_begin();
  params.n_tiles = static_cast<int32_t>(layout.down_n_tiles);
  params.k_tiles = static_cast<int32_t>(layout.down_k_tiles);
  params.gate_up = false;
  params.out = bits(y);
  params.out_stride = params.out_columns = m.hidden;
  bench.measure(prefix + ": down", flops, "TFLOP/s",
                [&] { cuda::launch_grouped_gemm(params, multiprocessors, stream); });
  bench.measure(prefix + ": combine", rows * static_cast<double>(m.hidden) * 2e-9, "TB/s", [&] {
    cuda::launch_moe_combine({.y = bits(y),
                              .slots = slot_of.view().as<int32_t>(),
                              .weights = experts.weights.view().as<float>(),
                              .out = out.view().as<float>(),
                              .tokens = tokens,
                              .hidden = m.hidden,
                              .y_stride = m.hidden,
                              .chosen = static_cast<int32_t>(m.chosen)},
                             stream);
  });
}

// Causal attention over sequences of one length.
struct Attention {
  Attention(Bench& bench, const Model& m, int64_t total, int64_t length)
      : q(bench.noise(DType::kBf16, {total, m.q_heads, m.head_dim})),
        k(bench.noise(DType::kBf16, {total, m.kv_heads, m.head_dim})),
        v(bench.noise(DType::kBf16, {total, m.kv_heads, m.head_dim})),
        out(bench.device(), DType::kBf16, {total, m.q_heads, m.head_dim}) {
    for (int64_t row = 0; row < total; row += length)
      sequences.push_back({.row = row, .tokens = static_cast<int32_t>(length), .prefix = {}});
    const double pairs = static_cast<double>(total) * static_cast<double>(length + 1) / 2;
    flops = 4 * pairs * static_cast<double>(m.q_heads * m.head_dim);
  }
  [[nodiscard]] AttentionArgs args() {
    return {.q = q.view(), .k = k.view(), .v = v.view(), .sequences = sequences, .scale = 0.088388f, .out = out.view()};
  }
  Tensor q, k, v, out;
  std::vector<AttentionSequence> sequences;
  double flops = 0;
};

void bench_attention(Bench& bench, const Model& m, int64_t total, int64_t length,
                     cuda::AttentionChoice choice = cuda::AttentionChoice::kTensor) {
  const bool simple = choice == cuda::AttentionChoice::kSimple;
  const std::string name = fmt::format("attention{}/{} {}x{}", simple ? " simple" : "", m.name, total / length, length);
  if (!bench.wants(name)) return;
  cuda::CudaOps ops(bench.device(), {}, {.attention = choice});
  Attention attention(bench, m, total, length);
  bench.measure(name, attention.flops / kTera, "TFLOP/s", [&] { ops.attention(bench.stream(), attention.args()); });
}

// All operations of a layer, one after another, and each one's share.
void bench_layer(Bench& bench, const Model& m, int64_t tokens, int64_t length) {
  const std::string prefix = fmt::format("layer/{} {}x{}", m.name, tokens / length, length);
  if (!bench.wants(prefix)) return;
  cuda::CudaOps ops(bench.device(), limits_of(m, tokens));
  const Experts experts(bench, m, tokens);
  Attention attention(bench, m, tokens, length);
  const int64_t q_dim = m.q_heads * m.head_dim;
  const int64_t qkv_dim = q_dim + 2 * m.kv_heads * m.head_dim;
  const PackedMatrix qkv_weight = bench.matrix(qkv_dim, m.hidden);
  const PackedMatrix out_weight = bench.matrix(m.hidden, q_dim);
  const PackedMatrix router = bench.matrix(m.experts, m.hidden);
  const Tensor norm = bench.noise(DType::kF32, {m.hidden});
  const Tensor head_norm = bench.noise(DType::kF32, {m.head_dim});
  const Tensor frequencies = bench.noise(DType::kF32, {m.head_dim / 2});
  Tensor residual = bench.noise(DType::kF32, {tokens, m.hidden});
  Tensor delta = bench.noise(DType::kF32, {tokens, m.hidden});
  Tensor normed = bench.noise(DType::kBf16, {tokens, m.hidden});
  Tensor qkv = bench.noise(DType::kBf16, {tokens, qkv_dim});
  Tensor logits = bench.noise(DType::kF32, {tokens, m.experts});
  Tensor ids(bench.device(), DType::kI32, {tokens, m.chosen});
  Tensor weights(bench.device(), DType::kF32, {tokens, m.chosen});
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<int32_t>(t % length));
  Stream& stream = bench.stream();
  const std::vector<std::pair<std::string, std::function<void()>>> parts = {
      {"norm",
       [&] {
         ops.residual_norm(stream, {residual.view(), delta.view(), norm.view(), 1e-6f, normed.view()});
       }},
      {"qkv",
       [&] {
         ops.linear(stream, {normed.view(), &qkv_weight, qkv.view()});
       }},
      {"rope",
       [&] {
         ops.rope(stream, {qkv.view(), positions, frequencies.view(), head_norm.view(), head_norm.view(), 1e-6f,
                           attention.q.view(), attention.k.view(), attention.v.view()});
       }},
      {"attention", [&] { ops.attention(stream, attention.args()); }},
      {"out",
       [&] {
         ops.linear(stream, {{attention.out.view().data(), DType::kBf16, {tokens, q_dim}}, &out_weight, delta.view()});
       }},
      {"norm 2",
       [&] {
         ops.residual_norm(stream, {residual.view(), delta.view(), norm.view(), 1e-6f, normed.view()});
       }},
      {"router",
       [&] {
         ops.linear(stream, {normed.view(), &router, logits.view()});
       }},
      {"route",
       [&] {
         ops.route(stream, {logits.view(), true, ids.view(), weights.view()});
       }},
      {"experts", [&] {
         ops.moe(stream, {normed.view(),
                          experts.ids.view(),
                          experts.weights.view(),
                          experts.blobs,
                          {m.hidden, m.intermediate},
                          delta.view()});
       }}};
  const double ms = bench.time([&] {
    for (const auto& [name, run] : parts) run();
  });
  bench.report(prefix + fmt::format(": whole, of {}", m.layers), ms,
               static_cast<double>(tokens) / static_cast<double>(m.layers), "Ktok/s");
  for (const auto& [name, run] : parts) bench.report(prefix + ": " + name, bench.time(run), 0, "");
  Tensor head_x = bench.noise(DType::kBf16, {64, m.hidden});
  const PackedMatrix head = bench.matrix(m.vocabulary, m.hidden);
  std::vector<int64_t> offsets;
  std::vector<int32_t> candidates;
  for (int64_t r = 0; r <= 64; ++r) offsets.push_back(r * 4);
  for (int32_t c = 0; c < 256; ++c) candidates.push_back(c * 500);
  Tensor head_logits(bench.device(), DType::kF32, {256});
  Tensor log_sum_exp(bench.device(), DType::kF32, {64});
  bench.measure(prefix + ": head of 64 rows", static_cast<double>(m.vocabulary * m.hidden) * 2e-9, "TB/s", [&] {
    ops.head(stream, {head_x.view(), &head, offsets, candidates, head_logits.view(), log_sum_exp.view()});
  });
}

void run(int32_t device, const std::string& only, const std::string& json) {
  Bench bench(device, only, json);
  for (const int64_t tokens : {4096, 16384, 65536}) bench_moe(bench, kQwen30B, tokens);
  for (const int64_t tokens : {4096, 16384, 65536}) bench_moe(bench, kQwen235B, tokens);
  for (const int64_t length : {512, 2048, 8192, 32768}) bench_attention(bench, kQwen30B, 32768, length);
  bench_attention(bench, kQwen30B, 131'072, 131'072);
  bench_attention(bench, kQwen30B, 32768, 8192, cuda::AttentionChoice::kSimple);
  bench_dense(bench);
  bench_layer(bench, kQwen30B, 16384, 512);
  bench_layer(bench, kQwen30B, 32768, 4096);
  bench_layer(bench, kQwen235B, 16384, 4096);
  bench_copies(bench);
}

}  // namespace
}  // namespace zp

int main(int argc, char** argv) {
  CLI::App app("What the operations reach on a GPU");
  int32_t device = 0;
  std::string only;
  std::string json;
  app.add_option("--device", device, "The GPU's number");
  app.add_option("--only", only, "Only measurements whose name begins so");
  app.add_option("--json", json, "Write a JSON line a measurement to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    zp::run(device, only, json);
  } catch (const zp::Error& error) {
    fmt::print(stderr, "cuda_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
