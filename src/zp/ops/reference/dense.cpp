// Embedding, norm, linear layers, SwiGLU, row gathering, conversion and the output head.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "zp/ops/reference/elements.h"
#include "zp/ops/reference/kernels.h"

namespace zp::reference {
namespace {

// Weights [n, k] of type A, as linear() and head() read them.
ConstTensorView weight_view(const PackedMatrix& weight, DType activation) {
  return {weight.buffer.data(), activation, {weight.n, weight.k}};
}

double log_sum_exp(const std::vector<float>& values) {
  float top = -std::numeric_limits<float>::infinity();
  for (const float value : values) {
    if (std::isnan(value)) return static_cast<double>(value);
    top = std::max(top, value);
  }
  // Differences of infinities are no numbers, yet the result is clear.
  if (std::isinf(top)) return static_cast<double>(top);
  double sum = 0;
  for (const float value : values) sum += std::exp(static_cast<double>(value) - static_cast<double>(top));
  return static_cast<double>(top) + std::log(sum);
}

}  // namespace

void embed(const EmbedArgs& args) {
  const int64_t hidden = args.table.dim(1);
  for (int64_t t = 0; t < std::ssize(args.ids); ++t) {
    const int64_t id = args.ids[static_cast<size_t>(t)];
    for (int64_t h = 0; h < hidden; ++h)
      store(args.out, t * hidden + h, static_cast<double>(load(args.table, id * hidden + h)));
  }
}

void residual_norm(const ResidualNormArgs& args) {
  const int64_t tokens = args.residual.dim(0);
  const int64_t hidden = args.residual.dim(1);
  float* residual = args.residual.as<float>();
  for (int64_t t = 0; t < tokens; ++t) {
    float* row = residual + t * hidden;
    double squares = 0;
    for (int64_t h = 0; h < hidden; ++h) {
      if (!args.delta.empty()) row[h] += args.delta.as<float>()[t * hidden + h];
      squares += static_cast<double>(row[h]) * static_cast<double>(row[h]);
    }
    if (args.out.empty()) continue;
    const double mean = squares / static_cast<double>(hidden);
    const double scale = 1.0 / std::sqrt(mean + static_cast<double>(args.eps));
    for (int64_t h = 0; h < hidden; ++h)
      store(args.out, t * hidden + h,
            static_cast<double>(row[h]) * scale * static_cast<double>(args.weight.as<float>()[h]));
  }
}

void linear(const LinearArgs& args) {
  const int64_t tokens = args.x.dim(0);
  const int64_t n_count = args.weight->n;
  const int64_t k_count = args.weight->k;
  const ConstTensorView weight = weight_view(*args.weight, args.x.dtype());
  for (int64_t n = 0; n < n_count; ++n) {
    const std::vector<float> weights = load_span(weight, n * k_count, k_count);
    for (int64_t t = 0; t < tokens; ++t) {
      const double product = dot(load_span(args.x, t * k_count, k_count), weights);
      if (args.add)
        args.out.as<float>()[t * n_count + n] += static_cast<float>(product);
      else
        store(args.out, t * n_count + n, product);
    }
  }
}

void swiglu(const SwigluArgs& args) {
  const int64_t tokens = args.out.dim(0);
  const int64_t width = args.out.dim(1);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < width; ++i) {
      const auto gate = static_cast<double>(load(args.x, t * 2 * width + i));
      const auto up = static_cast<double>(load(args.x, t * 2 * width + width + i));
      store(args.out, t * width + i, silu(gate) * up);
    }
  }
}

void gather_rows(const GatherRowsArgs& args) {
  const size_t row_bytes = static_cast<size_t>(args.x.dim(1)) * size_of(args.x.dtype());
  for (size_t r = 0; r < args.rows.size(); ++r)
    std::memcpy(args.out.data() + r * row_bytes, args.x.data() + static_cast<size_t>(args.rows[r]) * row_bytes,
                row_bytes);
}

void convert(const ConvertArgs& args) {
  for (int64_t i = 0; i < args.x.elements(); ++i) store(args.out, i, static_cast<double>(load(args.x, i)));
}

void head(const HeadArgs& args) {
  const int64_t rows = args.x.dim(0);
  const int64_t vocabulary = args.weight->n;
  const int64_t hidden = args.weight->k;
  const ConstTensorView weight = weight_view(*args.weight, args.x.dtype());
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<float> x = load_span(args.x, r * hidden, hidden);
    std::vector<float> logits(static_cast<size_t>(vocabulary));
    for (int64_t v = 0; v < vocabulary; ++v)
      logits[static_cast<size_t>(v)] = static_cast<float>(dot(x, load_span(weight, v * hidden, hidden)));
    store(args.log_sum_exp, r, log_sum_exp(logits));
    for (int64_t c = args.offsets[static_cast<size_t>(r)]; c < args.offsets[static_cast<size_t>(r) + 1]; ++c)
      args.logits.as<float>()[c] = logits[static_cast<size_t>(args.candidates[static_cast<size_t>(c)])];
  }
}

void draw(const DrawArgs& args) {
  const DrawnMatrix& m = args.matrix;
  for (int64_t r = 0; r < m.rows; ++r)
    for (int64_t c = 0; c < m.columns; ++c) {
      const int64_t column = m.column + c;
      const uint32_t word = drawn_words(m.key, m.row + r, column / 4).word[column % 4];
      store(args.out, r * m.columns + c, static_cast<double>(to_float(to_bf16(drawn_value(word, m.unit)))));
    }
}

}  // namespace zp::reference
