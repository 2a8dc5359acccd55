// Rope, and the ways from a product's result to the next normed rows.
#include "bench/cuda/row_bench.h"

#include <string>
#include <vector>

#include "zp/ops/cuda/cuda_ops.h"

namespace zp::bench {
namespace {

// The residual stream and what a half-layer adds to it.
struct Rows {
  Rows(Bench& bench, const ModelSizes& m, int64_t tokens)
      : weight(bench.noise(DType::kF32, {m.hidden})),
        residual(bench.noise(DType::kF32, {tokens, m.hidden})),
        delta(bench.noise(DType::kF32, {tokens, m.hidden})),
        normed(bench.noise(DType::kBf16, {tokens, m.hidden})) {}
  [[nodiscard]] ResidualNormArgs norm() {
    return {.residual = residual.view(),
            .delta = delta.view(),
            .weight = weight.view(),
            .eps = 1e-6F,
            .out = normed.view()};
  }
  Tensor weight, residual, delta, normed;
};

void bench_rope(Bench& bench, const ModelSizes& m, int64_t tokens, const std::string& prefix) {
  const int64_t heads = m.q_heads + 2 * m.kv_heads;
  cuda::CudaOps ops(bench.device(), {});
  const Tensor qkv = bench.noise(DType::kBf16, {tokens, heads * m.head_dim});
  const Tensor norm = bench.noise(DType::kF32, {m.head_dim});
  const Tensor frequencies = bench.noise(DType::kF32, {m.head_dim / 2});
  Tensor q(bench.device(), DType::kBf16, {tokens, m.q_heads, m.head_dim});
  Tensor k(bench.device(), DType::kBf16, {tokens, m.kv_heads, m.head_dim});
  Tensor v(bench.device(), DType::kBf16, {tokens, m.kv_heads, m.head_dim});
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<int32_t>(t % 4096));
  bench.measure(
      prefix + ": rope", 2 * static_cast<double>(qkv.view().size_bytes()) * 1e-9, "TB/s",
      [&] {
        ops.rope(bench.stream(), {.qkv = qkv.view(),
                                  .positions = positions,
                                  .inverse_frequencies = frequencies.view(),
                                  .q_norm = norm.view(),
                                  .k_norm = norm.view(),
                                  .eps = 1e-6F,
                                  .q = q.view(),
                                  .k = k.view(),
                                  .v = v.view()});
      },
      q.view());
}

void bench_attention_out(Bench& bench, const ModelSizes& m, int64_t tokens, const std::string& prefix) {
  const int64_t q_dim = m.q_heads * m.head_dim;
  cuda::CudaOps ops(bench.device(), {});
  Rows rows(bench, m, tokens);
  const Tensor attended = bench.noise(DType::kBf16, {tokens, q_dim});
  const PackedMatrix weight = bench.matrix(m.hidden, q_dim);
  const double work = 2e-9 * static_cast<double>(tokens * m.hidden * q_dim);
  LinearArgs product{.x = attended.view(), .weight = &weight, .out = rows.delta.view()};
  bench.measure(
      prefix + ": attention out, norm that adds", work, "TFLOP/s",
      [&] {
        ops.linear(bench.stream(), product);
        ops.residual_norm(bench.stream(), rows.norm());
      },
      rows.delta.view());
  product.out = rows.residual.view();
  product.add = true;
  ResidualNormArgs norm = rows.norm();
  norm.delta = {};
  bench.measure(prefix + ": attention out that adds, norm", work, "TFLOP/s", [&] {
    ops.linear(bench.stream(), product);
    ops.residual_norm(bench.stream(), norm);
  });
}

}  // namespace

void bench_rows(Bench& bench, const ModelSizes& model, int64_t tokens) {
  const std::string prefix = fmt::format("rows/{} {} tokens", model.name, tokens);
  if (!bench.wants(prefix)) return;
  bench_rope(bench, model, tokens, prefix);
  bench_attention_out(bench, model, tokens, prefix);
}

}  // namespace zp::bench
