// Rotary embedding.
#include <array>
#include <cmath>

#include "zp/ops/cpu/attention.h"
#include "zp/ops/cpu/rows.h"

namespace zp::cpu {

void rope(Workers& workers, const RopeArgs& args) {
  const int64_t q_heads = args.q.dim(1);
  const int64_t kv_heads = args.k.dim(1);
  const int64_t head_dim = args.q.dim(2);
  const int64_t heads = q_heads + 2 * kv_heads;
  const size_t input_bytes = static_cast<size_t>(head_dim) * size_of(args.qkv.dtype());
  const size_t head_bytes = static_cast<size_t>(head_dim) * size_of(workers.activation());
  check_head_dim(head_dim);
  workers.run_rows(std::ssize(args.positions), 8 * heads * head_dim, [&](int64_t t) {
    std::array<float, kHeadDimMax / 2> cosine;
    std::array<float, kHeadDimMax / 2> sine;
    const auto position = static_cast<float>(args.positions[static_cast<size_t>(t)]);
    for (size_t i = 0; i < static_cast<size_t>(head_dim / 2); ++i) {
      const float angle = position * args.inverse_frequencies.as<float>()[i];
      cosine[i] = std::cos(angle);
      sine[i] = std::sin(angle);
    }
    const std::byte* head = args.qkv.data() + static_cast<size_t>(t * heads) * input_bytes;
    std::array<float, kHeadDimMax> widened;
    const auto rotate = [&](const TensorView& out, int64_t index, const ConstTensorView& norm) {
      const float* values = reinterpret_cast<const float*>(head);
      if (args.qkv.dtype() != DType::kF32) {
        workers.kernels().convert({head, args.qkv.dtype()}, {widened.data(), DType::kF32}, head_dim);
        values = widened.data();
      }
      workers.kernels().rotate_head({.head = values,
                                     .cosine = cosine.data(),
                                     .sine = sine.data(),
                                     .weight = norm.empty() ? nullptr : norm.as<float>(),
                                     .eps = args.eps,
                                     .head_dim = head_dim,
                                     .out = {out.data() + static_cast<size_t>(index) * head_bytes, out.dtype()}});
      head += input_bytes;
    };
    for (int64_t h = 0; h < q_heads; ++h) rotate(args.q, t * q_heads + h, args.q_norm);
    for (int64_t h = 0; h < kv_heads; ++h) rotate(args.k, t * kv_heads + h, args.k_norm);
    std::byte* v = args.v.data() + static_cast<size_t>(t * kv_heads) * head_bytes;
    workers.kernels().convert({head, args.qkv.dtype()}, {v, args.v.dtype()}, kv_heads * head_dim);
  });
}

}  // namespace zp::cpu
