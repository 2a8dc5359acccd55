// Drawn weights, embedding, norms, SwiGLU and copies.
#include "zp/ops/cpu/rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "zp/ops/drawn_host.h"

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

void draw(Workers& workers, const DrawArgs& args) {
  const auto columns = static_cast<size_t>(args.matrix.columns);
  workers.run_rows(args.matrix.rows, 16 * args.matrix.columns, [&](int64_t r) {
    const size_t begin = static_cast<size_t>(r) * columns;
    if (args.out.dtype() == DType::kBf16) return draw_row(args.matrix, r, {args.out.as<Bf16>() + begin, columns});
    std::vector<Bf16> elements(columns);
    draw_row(args.matrix, r, elements);
    for (size_t c = 0; c < columns; ++c) args.out.as<float>()[begin + c] = to_float(elements[c]);
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
  const size_t row_bytes = static_cast<size_t>(args.x.dim(1)) * size_of(args.x.dtype());
  workers.run_rows(std::ssize(args.rows), args.x.dim(1), [&](int64_t r) {
    const auto from = static_cast<size_t>(args.rows[static_cast<size_t>(r)]);
    std::memcpy(args.out.data() + static_cast<size_t>(r) * row_bytes, args.x.data() + from * row_bytes, row_bytes);
  });
}

void convert(Workers& workers, const ConvertArgs& args) {
  const int64_t width = args.x.dim(1);
  workers.run_rows(args.x.dim(0), width, [&](int64_t t) {
    const auto first = static_cast<size_t>(t * width);
    workers.kernels().convert({args.x.data() + first * size_of(args.x.dtype()), args.x.dtype()},
                              {args.out.data() + first * size_of(args.out.dtype()), args.out.dtype()}, width);
  });
}

void combine(Workers& workers, const CombineArgs& args) {
  constexpr int64_t kPart = 256;  // elements of a row converted at a time, on the thread's stack
  const Kernels& kernels = workers.kernels();
  const int64_t hidden = args.x.dim(1);
  const int64_t chosen = args.weights.dim(1);
  const size_t element_size = size_of(args.x.dtype());
  workers.run_rows(args.weights.dim(0), chosen * hidden, [&](int64_t t) {
    float* out = args.out.as<float>() + t * hidden;
    std::array<float, kPart> part{};
    std::fill_n(out, hidden, 0.0f);
    for (int64_t j = 0; j < chosen; ++j) {
      const int64_t row = args.rows[static_cast<size_t>(t * chosen + j)];
      const float weight = args.weights.as<float>()[t * chosen + j];
      for (int64_t begin = 0; begin < hidden; begin += kPart) {
        const int64_t count = std::min(kPart, hidden - begin);
        const std::byte* from = args.x.data() + static_cast<size_t>(row * hidden + begin) * element_size;
        kernels.convert({from, args.x.dtype()}, {part.data(), DType::kF32}, count);
        kernels.add_scaled(out + begin, part.data(), weight, count);
      }
    }
  });
}

}  // namespace zp::cpu
