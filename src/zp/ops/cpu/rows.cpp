// Embedding, norms, SwiGLU and copies.
#include "zp/ops/cpu/rows.h"

#include <cmath>
#include <cstring>

namespace zp::cpu {

void embed(Workers& workers, const EmbedArgs& args) {
  const int64_t hidden = args.table.dim(1);
  const size_t table_row_bytes = static_cast<size_t>(hidden) * size_of(args.table.dtype());
  workers.run_rows(std::ssize(args.ids), hidden, [&](int64_t t) {
    const auto id = static_cast<size_t>(args.ids[static_cast<size_t>(t)]);
    workers.kernels().convert({args.table.data() + id * table_row_bytes, args.table.dtype()},
                              {args.out.as<float>() + t * hidden, DType::kF32}, hidden);
  });
}

void residual_norm(Workers& workers, const ResidualNormArgs& args) {
  const Kernels& kernels = workers.kernels();
  const int64_t hidden = args.residual.dim(1);
  const size_t out_row_bytes = static_cast<size_t>(hidden) * size_of(args.out.dtype());
  workers.run_rows(args.residual.dim(0), 3 * hidden, [&](int64_t t) {
    float* residual = args.residual.as<float>() + t * hidden;
    if (!args.delta.empty()) kernels.add(residual, args.delta.as<float>() + t * hidden, hidden);
    if (args.out.empty()) return;
    const float mean = kernels.sum_of_squares(residual, hidden) / static_cast<float>(hidden);
    const Elements out{args.out.data() + static_cast<size_t>(t) * out_row_bytes, args.out.dtype()};
    kernels.scale(residual, 1.0f / std::sqrt(mean + args.eps), args.weight.as<float>(), out, hidden);
  });
}

void store_kv(Workers& workers, const StoreKvArgs& args) {
  const size_t row_bytes = static_cast<size_t>(args.k.dim(1) * args.k.dim(2)) * size_of(args.k.dtype());
  int64_t tokens = 0;
  for (const KvStore& kept : args.stores) tokens += kept.tokens;
  workers.run(std::ssize(args.stores), tokens * args.k.dim(1) * args.k.dim(2), [&](int64_t index, int32_t /*thread*/) {
    const KvStore& kept = args.stores[static_cast<size_t>(index)];
    if (kept.tokens == 0) return;
    const size_t offset = static_cast<size_t>(kept.row) * row_bytes;
    std::memcpy(kept.k, args.k.data() + offset, static_cast<size_t>(kept.tokens) * row_bytes);
    std::memcpy(kept.v, args.v.data() + offset, static_cast<size_t>(kept.tokens) * row_bytes);
  });
}

void swiglu(Workers& workers, const SwigluArgs& args) {
  const int64_t width = args.out.dim(1);
  const size_t x_size = size_of(args.x.dtype());
  const size_t out_size = size_of(args.out.dtype());
  workers.run_rows(args.out.dim(0), 16 * width, [&](int64_t t) {
    const std::byte* gate = args.x.data() + static_cast<size_t>(t * 2 * width) * x_size;
    const std::byte* up = gate + static_cast<size_t>(width) * x_size;
    std::byte* out = args.out.data() + static_cast<size_t>(t * width) * out_size;
    workers.kernels().silu_times({gate, args.x.dtype()}, {up, args.x.dtype()}, {out, args.out.dtype()}, width);
  });
}

void gather_rows(Workers& workers, const GatherRowsArgs& args) {
  const int64_t hidden = args.x.dim(1);
  workers.run_rows(std::ssize(args.rows), hidden, [&](int64_t r) {
    const int64_t from = args.rows[static_cast<size_t>(r)];
    std::memcpy(args.out.as<float>() + r * hidden, args.x.as<float>() + from * hidden,
                static_cast<size_t>(hidden) * sizeof(float));
  });
}

}  // namespace zp::cpu
