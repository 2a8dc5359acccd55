// What the operations reach on a GPU at the shapes of real models: a table, and a JSON line a measurement.
//   build-cuda/bench/cuda_bench [--json FILE --commit HASH] [--only PREFIX] [--device N]
// A figure is the median of five samples, each of as many runs as fill some tens of milliseconds, after 0.3 s of the
// same, on random data, timed by events on the stream.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/cuda/choice_bench.h"
#include "bench/cuda/gpu_bench.h"
#include "bench/cuda/row_bench.h"
#include "zp/base/error.h"
#include "zp/ops/cuda/cuda_ops.h"
#include "zp/ops/cuda/expert_layout.h"
#include "zp/ops/cuda/moe_kernels.h"
#include "zp/tensor/tensor.h"

namespace zp::bench {
namespace {

OpsLimits limits_of(const ModelSizes& m, int64_t tokens) {
  return {.moe_tokens = tokens,
          .experts_per_token = m.chosen,
          .experts = m.experts,
          .expert = {m.hidden, m.intermediate},
          .head_dim = m.head_dim,
          .linear_k = m.q_heads * m.head_dim,
          .head_rows = 64,
          .vocabulary = m.vocabulary};
}

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
      bench.measure(
          name, 2.0 * static_cast<double>(tokens * n * k) / kTera, "TFLOP/s",
          [&] { ops.linear(bench.stream(), {.x = x.view(), .weight = &weight, .out = out.view()}); }, out.view());
    }
  }
}

// A layer of experts with tokens routed evenly at random.
struct Experts {
  Experts(Bench& bench, const ModelSizes& m, int64_t tokens)
      : blob_bytes(cuda::ExpertLayout(m.hidden, m.intermediate).blob_bytes()),
        memory(bench.device().allocate(blob_bytes * static_cast<size_t>(m.experts))) {
    bench.fill_with_noise(memory);
    for (int64_t e = 0; e < m.experts; ++e) blobs.push_back(memory.data() + static_cast<size_t>(e) * blob_bytes);
    std::mt19937 engine(kSeed + 1);
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

cuda::Bits16* bits(const Tensor& tensor) { return reinterpret_cast<cuda::Bits16*>(tensor.view().data()); }

// The parts of a layer of experts, each by itself: what CudaOps::moe() launches one after another, in memory of our
// own.
class MoeParts {
 public:
  MoeParts(Bench& bench, const ModelSizes& m, const Experts& experts, const Tensor& x)
      : bench_(bench),
        m_(m),
        experts_(experts),
        x_(x),
        tokens_(x.view().dim(0)),
        layout_(m.hidden, m.intermediate),
        pointers_(bench.device(), DType::kI32, {2 * m.experts}),
        counts_(bench.device(), DType::kI32, {4 * (m.experts + 1) + 1}),
        slot_of_(bench.device(), DType::kI32, {tokens_ * m.chosen}),
        token_of_(bench.device(), DType::kI32, {tokens_ * m.chosen}),
        y_(bench.device(), DType::kBf16, {tokens_ * m.chosen, m.hidden}) {
    bench.stream().copy(pointers_.view().data(), experts.blobs.data(), experts.blobs.size() * sizeof(std::byte*));
  }

  // Leaves behind where slots are, for the others.
  void sort(const std::string& prefix) {
    const auto run = [&] {
      cuda::launch_moe_sort({.ids = experts_.ids.view().as<int32_t>(),
                             .assignments = slots(),
                             .chosen = static_cast<int32_t>(m_.chosen),
                             .experts = static_cast<int32_t>(m_.experts),
                             .counts = count(0),
                             .cursors = count(1),
                             .offsets = count(2),
                             .tile_starts = count(3),
                             .slots = slot_of_.view().as<int32_t>(),
                             .tokens = token_of_.view().as<int32_t>()},
                            stream());
    };
    run();
    bench_.measure(prefix + ": sort", static_cast<double>(slots()) * 1e-6, "G/s", run);
  }

  void gate_up(const std::string& prefix, double flops) {
    const Tensor inner(bench_.device(), DType::kBf16, {slots(), layout_.inner_columns()});
    const cuda::GroupedGemmParams params{.x = bits(x_),
                                         .rows = token_of_.view().as<int32_t>(),
                                         .x_stride = m_.hidden,
                                         .k = m_.hidden,
                                         .experts = pointers(),
                                         .weight_offset = 0,
                                         .n_tiles = static_cast<int32_t>(layout_.gate_up_n_tiles),
                                         .k_tiles = static_cast<int32_t>(layout_.gate_up_k_tiles),
                                         .offsets = count(2),
                                         .tile_starts = count(3),
                                         .next_tile = count(4),
                                         .expert_count = static_cast<int32_t>(m_.experts),
                                         .gate_up = true,
                                         .out = bits(inner),
                                         .out_stride = layout_.inner_columns(),
                                         .out_columns = m_.intermediate,
                                         .slots = slots()};
    bench_.measure(prefix + ": gate+up", flops, "TFLOP/s", [&] { launch(params); });
  }

  // silu * up of random rows would overflow: this product gets noise of its own, a row a slot.
  void down(const std::string& prefix, double flops) {
    const Tensor noise = bench_.noise(DType::kBf16, {slots(), layout_.inner_columns()});
    const cuda::GroupedGemmParams params{.x = bits(noise),
                                         .rows = nullptr,
                                         .x_stride = layout_.inner_columns(),
                                         .k = layout_.inner_columns(),
                                         .experts = pointers(),
                                         .weight_offset = layout_.down_begin(),
                                         .n_tiles = static_cast<int32_t>(layout_.down_n_tiles),
                                         .k_tiles = static_cast<int32_t>(layout_.down_k_tiles),
                                         .offsets = count(2),
                                         .tile_starts = count(3),
                                         .next_tile = count(4),
                                         .expert_count = static_cast<int32_t>(m_.experts),
                                         .gate_up = false,
                                         .out = bits(y_),
                                         .out_stride = m_.hidden,
                                         .out_columns = m_.hidden,
                                         .slots = slots()};
    bench_.measure(
        prefix + ": down", flops, "TFLOP/s", [&] { launch(params); }, y_.view());
  }

  void combine(const std::string& prefix) {
    const Tensor out(bench_.device(), DType::kF32, {tokens_, m_.hidden});
    const Tensor residual = bench_.noise(DType::kF32, {tokens_, m_.hidden});
    const Tensor norm_weight = bench_.noise(DType::kF32, {m_.hidden});
    const Tensor normed(bench_.device(), DType::kBf16, {tokens_, m_.hidden});
    const cuda::MoeCombineNormParams last{.sum = {.y = bits(y_),
                                                  .slots = slot_of_.view().as<int32_t>(),
                                                  .weights = experts_.weights.view().as<float>(),
                                                  .out = out.view().as<float>(),
                                                  .tokens = tokens_,
                                                  .hidden = m_.hidden,
                                                  .y_stride = m_.hidden,
                                                  .chosen = static_cast<int32_t>(m_.chosen)},
                                          .norm = {.residual = residual.view().as<float>(),
                                                   .delta = out.view().as<float>(),
                                                   .weight = norm_weight.view().as<float>(),
                                                   .out = bits(normed),
                                                   .tokens = tokens_,
                                                   .hidden = m_.hidden,
                                                   .eps = 1e-6F}};
    const double slot_bytes = static_cast<double>(slots() * m_.hidden) * 2;
    const double norm_bytes = static_cast<double>(tokens_ * m_.hidden) * 10;
    bench_.measure(prefix + ": combine", slot_bytes * 1e-9, "TB/s",
                   [&] { cuda::launch_moe_combine(last.sum, stream()); });
    // The same bytes for both, those that must move: so the rates compare as the times do.
    bench_.measure(prefix + ": combine, then norm", (slot_bytes + norm_bytes) * 1e-9, "TB/s", [&] {
      cuda::launch_moe_combine(last.sum, stream());
      cuda::launch_residual_norm(last.norm, stream());
    });
    bench_.measure(prefix + ": combine and norm", (slot_bytes + norm_bytes) * 1e-9, "TB/s",
                   [&] { cuda::launch_moe_combine_norm(last, stream()); });
  }

 private:
  [[nodiscard]] int64_t slots() const { return tokens_ * m_.chosen; }
  [[nodiscard]] cudaStream_t stream() { return bench_.stream().get(); }
  // Array i of counts_.
  [[nodiscard]] int32_t* count(int64_t i) { return counts_.view().as<int32_t>() + i * (m_.experts + 1); }
  [[nodiscard]] std::byte* const* pointers() { return reinterpret_cast<std::byte* const*>(pointers_.view().data()); }
  void launch(const cuda::GroupedGemmParams& params) {
    cuda::launch_grouped_gemm(params, bench_.device().multiprocessors(), stream());
  }

  Bench& bench_;
  const ModelSizes& m_;
  const Experts& experts_;
  const Tensor& x_;
  int64_t tokens_;
  cuda::ExpertLayout layout_;
  Tensor pointers_;
  Tensor counts_;    // five arrays: counts, cursors, offsets and tile starts by expert, and the next tile
  Tensor slot_of_;   // [tokens, chosen]
  Tensor token_of_;  // [slots]
  Tensor y_;         // [slots, hidden]
};

void bench_moe(Bench& bench, const ModelSizes& m, int64_t tokens) {
  const std::string prefix = fmt::format("moe/{} {} tokens", m.name, tokens);
  if (!bench.wants(prefix)) return;
  const Experts experts(bench, m, tokens);
  const Tensor x = bench.noise(DType::kBf16, {tokens, m.hidden});
  const double flops =
      2 * static_cast<double>(tokens * m.chosen) * static_cast<double>(m.hidden * m.intermediate) / kTera;
  {
    const Tensor out(bench.device(), DType::kF32, {tokens, m.hidden});
    cuda::CudaOps ops(bench.device(), limits_of(m, tokens));
    const auto whole = [&] {
      ops.moe(bench.stream(), {.x = x.view(),
                               .ids = experts.ids.view(),
                               .weights = experts.weights.view(),
                               .experts = experts.blobs,
                               .size = {m.hidden, m.intermediate},
                               .out = out.view()});
    };
    bench.measure(prefix + ": whole", 3 * flops, "TFLOP/s", whole, out.view());
  }
  MoeParts parts(bench, m, experts, x);
  parts.sort(prefix);
  parts.gate_up(prefix, 2 * flops);
  parts.down(prefix, flops);
  parts.combine(prefix);
}

// Causal attention over sequences of one length.
struct Attention {
  Attention(Bench& bench, const ModelSizes& m, int64_t total, int64_t length)
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

void bench_attention(Bench& bench, const ModelSizes& m, int64_t total, int64_t length,
                     cuda::AttentionChoice choice = cuda::AttentionChoice::kTensor) {
  const bool simple = choice == cuda::AttentionChoice::kSimple;
  const std::string name = fmt::format("attention{}/{} {}x{}", simple ? " simple" : "", m.name, total / length, length);
  if (!bench.wants(name)) return;
  cuda::CudaOps ops(bench.device(), {}, {.attention = choice});
  Attention attention(bench, m, total, length);
  bench.measure(
      name, attention.flops / kTera, "TFLOP/s", [&] { ops.attention(bench.stream(), attention.args()); },
      attention.out.view());
}

// All operations of a layer but the head.
class Layer {
 public:
  Layer(Bench& bench, const ModelSizes& m, int64_t tokens, int64_t length)
      : ops(bench.device(), limits_of(m, tokens)),
        stream_(bench.stream()),
        m_(m),
        tokens_(tokens),
        experts_(bench, m, tokens),
        attention_(bench, m, tokens, length),
        qkv_weight_(bench.matrix(q_dim() + 2 * m.kv_heads * m.head_dim, m.hidden)),
        out_weight_(bench.matrix(m.hidden, q_dim())),
        router_(bench.matrix(m.experts, m.hidden)),
        norm_(bench.noise(DType::kF32, {m.hidden})),
        head_norm_(bench.noise(DType::kF32, {m.head_dim})),
        frequencies_(bench.noise(DType::kF32, {m.head_dim / 2})),
        residual_(bench.noise(DType::kF32, {tokens, m.hidden})),
        delta_(bench.noise(DType::kF32, {tokens, m.hidden})),
        normed_(bench.noise(DType::kBf16, {tokens, m.hidden})),
        qkv_(bench.noise(DType::kBf16, {tokens, qkv_weight_.n})),
        logits_(bench.noise(DType::kF32, {tokens, m.experts})),
        ids_(bench.device(), DType::kI32, {tokens, m.chosen}),
        weights_(bench.device(), DType::kF32, {tokens, m.chosen}) {
    for (int64_t t = 0; t < tokens; ++t) positions_.push_back(static_cast<int32_t>(t % length));
  }

  using Part = std::pair<std::string, std::function<void()>>;
  // In their order. They live as long as the layer.
  [[nodiscard]] std::vector<Part> parts() {
    return {{"norm", [this] { norm(); }},
            {"qkv",
             [this] {
               ops.linear(stream_, {normed_.view(), &qkv_weight_, qkv_.view()});
             }},
            {"rope", [this] { rope(); }},
            {"attention", [this] { ops.attention(stream_, attention_.args()); }},
            {"out",
             [this] {
               ops.linear(stream_, {attended(), &out_weight_, delta_.view()});
             }},
            {"norm 2", [this] { norm(); }},
            {"router",
             [this] {
               ops.linear(stream_, {normed_.view(), &router_, logits_.view()});
             }},
            {"route",
             [this] {
               ops.route(stream_, {logits_.view(), true, ids_.view(), weights_.view()});
             }},
            {"experts", [this] { moe(); }}};
  }

  cuda::CudaOps ops;

 private:
  [[nodiscard]] int64_t q_dim() const { return m_.q_heads * m_.head_dim; }
  [[nodiscard]] TensorView attended() const { return {attention_.out.view().data(), DType::kBf16, {tokens_, q_dim()}}; }
  void norm() { ops.residual_norm(stream_, {residual_.view(), delta_.view(), norm_.view(), 1e-6F, normed_.view()}); }
  void rope() {
    ops.rope(stream_, {qkv_.view(), positions_, frequencies_.view(), head_norm_.view(), head_norm_.view(), 1e-6F,
                       attention_.q.view(), attention_.k.view(), attention_.v.view()});
  }
  void moe() {
    ops.moe(stream_, {normed_.view(),
                      experts_.ids.view(),
                      experts_.weights.view(),
                      experts_.blobs,
                      {m_.hidden, m_.intermediate},
                      delta_.view()});
  }

  Stream& stream_;
  const ModelSizes& m_;
  int64_t tokens_;
  Experts experts_;
  Attention attention_;
  PackedMatrix qkv_weight_, out_weight_, router_;
  Tensor norm_, head_norm_, frequencies_;
  Tensor residual_, delta_, normed_, qkv_, logits_, ids_, weights_;
  std::vector<int32_t> positions_;
};

void bench_head(Bench& bench, const ModelSizes& m, cuda::CudaOps& ops, const std::string& prefix) {
  const Tensor x = bench.noise(DType::kBf16, {64, m.hidden});
  const PackedMatrix head = bench.matrix(m.vocabulary, m.hidden);
  std::vector<int64_t> offsets;
  std::vector<int32_t> candidates;
  for (int64_t r = 0; r <= 64; ++r) offsets.push_back(r * 4);
  for (int32_t c = 0; c < 256; ++c) candidates.push_back(c * 500);
  const Tensor logits(bench.device(), DType::kF32, {256});
  const Tensor log_sum_exp(bench.device(), DType::kF32, {64});
  const auto run = [&] {
    ops.head(bench.stream(), {x.view(), &head, offsets, candidates, logits.view(), log_sum_exp.view()});
  };
  bench.measure(prefix + ": head of 64 rows", static_cast<double>(m.vocabulary * m.hidden) * 2e-9, "TB/s", run,
                logits.view());
}

// The layer, and each operation's share.
void bench_layer(Bench& bench, const ModelSizes& m, int64_t tokens, int64_t length) {
  const std::string prefix = fmt::format("layer/{} {}x{}", m.name, tokens / length, length);
  if (!bench.wants(prefix)) return;
  Layer layer(bench, m, tokens, length);
  const std::vector<Layer::Part> parts = layer.parts();
  const double ms = bench.time([&] {
    for (const auto& [name, run] : parts) run();
  });
  bench.report(prefix + fmt::format(": whole, of {}", m.layers), ms,
               static_cast<double>(tokens) / static_cast<double>(m.layers), "Ktok/s");
  for (const auto& [name, run] : parts) bench.report(fmt::format("{}: {}", prefix, name), bench.time(run), 0, "");
  bench_head(bench, m, layer.ops, prefix);
}

void run(const BenchOptions& options) {
  Bench bench(options);
  const ModelSizes qwen_30b = sizes_of("Qwen3-30B-A3B", "30B");
  const ModelSizes qwen_235b = sizes_of("Qwen3-235B-A22B", "235B");
  for (const int64_t tokens : {4096, 16384, 65536}) bench_moe(bench, qwen_30b, tokens);
  for (const int64_t tokens : {4096, 16384, 65536}) bench_moe(bench, qwen_235b, tokens);
  for (const int64_t length : {512, 2048, 4096, 8192, 32768}) bench_attention(bench, qwen_30b, 32768, length);
  bench_attention(bench, qwen_30b, 131'072, 131'072);
  for (const int64_t length : {512, 4096, 32768}) bench_attention(bench, qwen_235b, 32768, length);
  bench_attention(bench, qwen_30b, 32768, 8192, cuda::AttentionChoice::kSimple);
  bench_dense(bench);
  bench_layer(bench, qwen_30b, 16384, 512);
  bench_layer(bench, qwen_30b, 32768, 4096);
  bench_layer(bench, qwen_235b, 16384, 4096);
  for (const ModelSizes& model : {qwen_30b, qwen_235b}) bench_rows(bench, model, 32768);
  for (const ModelSizes& model : {qwen_30b, qwen_235b}) bench_choice(bench, model);
  bench_copies(bench);
}

}  // namespace
}  // namespace zp::bench

int main(int argc, char** argv) {
  CLI::App app("What the operations reach on a GPU");
  zp::bench::BenchOptions options;
  app.add_option("--device", options.device, "The GPU's number");
  app.add_option("--only", options.only, "Only measurements whose name begins so");
  app.add_option("--json", options.json, "Append a JSON line a measurement to this file");
  app.add_option("--commit", options.commit, "Noted in the lines");
  CLI11_PARSE(app, argc, argv);
  options.command = zp::bench::command_of(argc, argv);
  try {
    zp::bench::run(options);
  } catch (const zp::Error& error) {
    fmt::print(stderr, "cuda_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
