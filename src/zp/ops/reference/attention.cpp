// Rotary embedding, causal attention over cached extents and fresh rows, and keeping keys and values.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "zp/ops/reference/elements.h"
#include "zp/ops/reference/kernels.h"

namespace zp::reference {
namespace {

// One head [D] of the fused projection, normalised if `norm` is not empty.
std::vector<double> normalised_head(const std::vector<float>& head, const ConstTensorView& norm, float eps) {
  std::vector<double> values(head.begin(), head.end());
  if (norm.empty()) return values;
  double squares = 0;
  for (const double value : values) squares += value * value;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(head.size()) + static_cast<double>(eps));
  for (size_t d = 0; d < values.size(); ++d) values[d] *= scale * static_cast<double>(norm.as<float>()[d]);
  return values;
}

// Writes the rotated head to out[index, index + D).
void store_rotated(const std::vector<double>& head, int32_t position, const float* inverse_frequencies,
                   const TensorView& out, int64_t index) {
  const size_t half = head.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * inverse_frequencies[i];
    const double cosine = std::cos(static_cast<double>(angle));
    const double sine = std::sin(static_cast<double>(angle));
    store(out, index + static_cast<int64_t>(i), head[i] * cosine - head[i + half] * sine);
    store(out, index + static_cast<int64_t>(i + half), head[i + half] * cosine + head[i] * sine);
  }
}

// The keys or values of one kv head of a whole sequence, oldest token first.
struct Context {
  std::vector<std::vector<float>> k;
  std::vector<std::vector<float>> v;
};

Context load_context(const AttentionArgs& args, const AttentionSequence& sequence, int64_t head) {
  const int64_t kv_heads = args.k.dim(1);
  const int64_t head_dim = args.k.dim(2);
  Context context;
  const auto append = [&](const ConstTensorView& k, const ConstTensorView& v, int64_t row) {
    context.k.push_back(load_span(k, (row * kv_heads + head) * head_dim, head_dim));
    context.v.push_back(load_span(v, (row * kv_heads + head) * head_dim, head_dim));
  };
  for (const KvExtent& extent : sequence.prefix) {
    const Shape shape{extent.tokens, kv_heads, head_dim};
    const ConstTensorView k(extent.k, args.k.dtype(), shape);
    const ConstTensorView v(extent.v, args.v.dtype(), shape);
    for (int64_t t = 0; t < extent.tokens; ++t) append(k, v, t);
  }
  for (int64_t t = 0; t < sequence.tokens; ++t) append(args.k, args.v, sequence.row + t);
  return context;
}

// Softmax attention of one query [D] over the first `visible` tokens.
std::vector<double> attend(const std::vector<float>& query, const Context& context, int64_t visible, double scale) {
  std::vector<double> scores(static_cast<size_t>(visible));
  for (size_t p = 0; p < scores.size(); ++p) scores[p] = dot(query, context.k[p]) * scale;
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) {
    score = std::exp(score - top);
    sum += score;
  }
  std::vector<double> out(query.size(), 0.0);
  for (size_t p = 0; p < scores.size(); ++p)
    for (size_t d = 0; d < out.size(); ++d) out[d] += scores[p] / sum * static_cast<double>(context.v[p][d]);
  return out;
}

}  // namespace

void rope(const RopeArgs& args) {
  const int64_t q_heads = args.q.dim(1);
  const int64_t kv_heads = args.k.dim(1);
  const int64_t head_dim = args.q.dim(2);
  const float* frequencies = args.inverse_frequencies.as<float>();
  int64_t next = 0;  // walks over the heads in order
  const auto next_head = [&] { return load_span(args.qkv, std::exchange(next, next + head_dim), head_dim); };
  for (int64_t t = 0; t < std::ssize(args.positions); ++t) {
    const int32_t position = args.positions[static_cast<size_t>(t)];
    for (int64_t h = 0; h < q_heads; ++h)
      store_rotated(normalised_head(next_head(), args.q_norm, args.eps), position, frequencies, args.q,
                    (t * q_heads + h) * head_dim);
    for (int64_t h = 0; h < kv_heads; ++h)
      store_rotated(normalised_head(next_head(), args.k_norm, args.eps), position, frequencies, args.k,
                    (t * kv_heads + h) * head_dim);
    for (int64_t h = 0; h < kv_heads; ++h) {
      const std::vector<float> head = next_head();
      for (int64_t d = 0; d < head_dim; ++d)
        store(args.v, (t * kv_heads + h) * head_dim + d, static_cast<double>(head[static_cast<size_t>(d)]));
    }
  }
}

void attention(const AttentionArgs& args) {
  const int64_t q_heads = args.q.dim(1);
  const int64_t kv_heads = args.k.dim(1);
  const int64_t head_dim = args.q.dim(2);
  const int64_t group = q_heads / kv_heads;
  for (const AttentionSequence& sequence : args.sequences) {
    for (int64_t h = 0; h < q_heads; ++h) {
      const Context context = load_context(args, sequence, h / group);
      const int64_t cached = std::ssize(context.k) - sequence.tokens;
      for (int64_t t = 0; t < sequence.tokens; ++t) {
        const int64_t index = ((sequence.row + t) * q_heads + h) * head_dim;
        const std::vector<double> out =
            attend(load_span(args.q, index, head_dim), context, cached + t + 1, static_cast<double>(args.scale));
        for (int64_t d = 0; d < head_dim; ++d) store(args.out, index + d, out[static_cast<size_t>(d)]);
      }
    }
  }
}

void store_kv(const StoreKvArgs& args) {
  const size_t row_bytes = static_cast<size_t>(args.k.dim(1) * args.k.dim(2)) * size_of(args.k.dtype());
  for (const KvStore& kept : args.stores) {
    if (kept.tokens == 0) continue;
    const size_t offset = static_cast<size_t>(kept.row) * row_bytes;
    std::memcpy(kept.k, args.k.data() + offset, static_cast<size_t>(kept.tokens) * row_bytes);
    std::memcpy(kept.v, args.v.data() + offset, static_cast<size_t>(kept.tokens) * row_bytes);
  }
}

}  // namespace zp::reference
