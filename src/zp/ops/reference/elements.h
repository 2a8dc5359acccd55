// Elements of tensors of any floating type, as numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "zp/tensor/tensor_view.h"

namespace zp::reference {

/// Element `index` of a tensor seen as one row-major array; f32, bf16 or f16.
[[nodiscard]] inline float load(const ConstTensorView& view, int64_t index) {
  switch (view.dtype()) {
    case DType::kBf16: return to_float(view.as<Bf16>()[index]);
    case DType::kF16: return to_float(view.as<F16>()[index]);
    default: return view.as<float>()[index];
  }
}

/// Rounds to the type of the tensor, f32 or bf16.
inline void store(const TensorView& view, int64_t index, double value) {
  const float rounded = static_cast<float>(value);
  if (view.dtype() == DType::kBf16) {
    view.as<Bf16>()[index] = to_bf16(rounded);
  } else {
    view.as<float>()[index] = rounded;
  }
}

/// Elements [begin, begin + count).
[[nodiscard]] inline std::vector<float> load_span(const ConstTensorView& view, int64_t begin, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = load(view, begin + i);
  return values;
}

[[nodiscard]] inline double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// The value that a tensor of type `dtype` would hold.
[[nodiscard]] inline float round_to(DType dtype, double value) {
  const float rounded = static_cast<float>(value);
  return dtype == DType::kBf16 ? to_float(to_bf16(rounded)) : rounded;
}

[[nodiscard]] inline double silu(double x) { return x / (1.0 + std::exp(-x)); }

}  // namespace zp::reference
