// Loops over the elements of rows, in terms of the Vec that the including file chose. See simd/avx512.h for why all is
// in an unnamed namespace; for the same reason no inline function of another header may be called here.
#pragma once

namespace zp::cpu {
// NOLINTBEGIN(misc-definitions-in-headers): one source file an instruction set includes this, each for itself.
namespace {

inline float reduce_add(Vec a) {
  float lanes[kLanes];
  store(lanes, a);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

inline float reduce_max(Vec a) {
  float lanes[kLanes];
  store(lanes, a);
  float top = lanes[0];
  for (int64_t i = 1; i < kLanes; ++i) top = lanes[i] > top ? lanes[i] : top;
  return top;
}

// Rows are worked on in runs of kLanes elements and one shorter run at the end.
template <typename T>
inline Vec load_run(const T* p, int64_t count) {
  return count == kLanes ? load(p) : load_some(p, count);
}
template <typename T>
inline void store_run(T* p, Vec a, int64_t count) {
  if (count == kLanes) {
    store(p, a);
  } else {
    store_some(p, a, count);
  }
}
// The length of the run that begins at i.
inline int64_t run_at(int64_t i, int64_t count) { return count - i < kLanes ? count - i : kLanes; }

/// out[i] = function(i, lanes) for all i; the function sees the first index of a run and its length.
template <typename T, typename Function>
inline void fill(T* out, int64_t count, Function function) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t run = run_at(i, count);
    store_run(out + i, function(i, run), run);
  }
}

template <typename Function>
inline void fill(Elements out, int64_t count, Function function) {
  if (out.dtype == DType::kBf16) {
    fill(static_cast<uint16_t*>(out.data), count, function);
  } else {
    fill(static_cast<float*>(out.data), count, function);
  }
}

// A run of elements of either type.
inline Vec load_run(ConstElements from, int64_t i, int64_t run) {
  return from.dtype == DType::kBf16 ? load_run(static_cast<const uint16_t*>(from.data) + i, run)
                                    : load_run(static_cast<const float*>(from.data) + i, run);
}

void convert(ConstElements from, Elements to, int64_t count) {
  fill(to, count, [=](int64_t i, int64_t run) { return load_run(from, i, run); });
}

void add_rows(float* a, const float* b, int64_t count) {
  fill(a, count, [=](int64_t i, int64_t run) { return add(load_run(a + i, run), load_run(b + i, run)); });
}

void add_scaled(float* a, const float* b, float scale, int64_t count) {
  const Vec factor = broadcast(scale);
  fill(a, count, [=](int64_t i, int64_t run) { return fma(factor, load_run(b + i, run), load_run(a + i, run)); });
}

float sum_of_squares(const float* a, int64_t count) {
  // Four sums, or each addition would wait for the one before.
  Vec sums[4] = {broadcast(0), broadcast(0), broadcast(0), broadcast(0)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int64_t j = 0; j < 4; ++j) {
      const Vec x = load(a + i + j * kLanes);
      sums[j] = fma(x, x, sums[j]);
    }
  }
  for (; i < count; i += kLanes) {
    const Vec x = load_run(a + i, run_at(i, count));
    sums[0] = fma(x, x, sums[0]);
  }
  return reduce_add(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

void scale_row(const float* a, float scale, const float* weight, Elements out, int64_t count) {
  const Vec factor = broadcast(scale);
  fill(out, count,
       [=](int64_t i, int64_t run) { return mul(mul(load_run(a + i, run), factor), load_run(weight + i, run)); });
}

inline Vec silu_times(Vec gate, Vec up) {
  return mul(div(gate, add(broadcast(1.0f), exp(sub(broadcast(0.0f), gate)))), up);
}

void silu_times_rows(ConstElements gate, ConstElements up, Elements out, int64_t count) {
  fill(out, count, [=](int64_t i, int64_t run) { return silu_times(load_run(gate, i, run), load_run(up, i, run)); });
}

inline Elements element_at(Elements elements, int64_t i) {
  if (elements.dtype == DType::kBf16) {
    elements.data = static_cast<uint16_t*>(elements.data) + i;
  } else {
    elements.data = static_cast<float*>(elements.data) + i;
  }
  return elements;
}

void store_product(const ProductOut& product) {
  for (int64_t r = 0; r < product.rows; ++r) {
    const float* row = product.product + r * kPanelColumns;
    fill(element_at(product.out, r * product.out_stride), product.columns,
         [=](int64_t i, int64_t run) { return load_run(row + i, run); });
  }
}

void silu_product(const ProductOut& product) {
  for (int64_t r = 0; r < product.rows; ++r) {
    const float* gate = product.product + r * kPanelColumns;
    const float* up = gate + kPanelColumns / 2;
    fill(element_at(product.out, r * product.out_stride), product.columns,
         [=](int64_t i, int64_t run) { return silu_times(load_run(gate + i, run), load_run(up + i, run)); });
  }
}

float largest(const float* a, int64_t count) {
  Vec top = broadcast(-kInfinity);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) top = max(load(a + i), top);
  float result = reduce_max(top);
  for (; i < count; ++i) result = a[i] > result ? a[i] : result;
  return result;
}

float sum_exp(const float* a, float top, int64_t count) {
  const Vec shift = broadcast(top);
  Vec sum = broadcast(0.0f);
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t run = run_at(i, count);
    const Vec value = exp(sub(load_run(a + i, run), shift));
    // Lanes after the end hold exp(0 - top): they must not count.
    float lanes[kLanes];
    if (run < kLanes) {
      store(lanes, value);
      for (int64_t lane = run; lane < kLanes; ++lane) lanes[lane] = 0.0f;
    }
    sum = add(sum, run < kLanes ? load(lanes) : value);
  }
  return reduce_add(sum);
}

void rotate_head(const RotateHead& args) {
  const int64_t half = args.head_dim / 2;
  float factor = 1.0f;
  if (args.weight != nullptr) {
    const float mean = sum_of_squares(args.head, args.head_dim) / static_cast<float>(args.head_dim);
    factor = 1.0f / __builtin_sqrtf(mean + args.eps);
  }
  const Vec scale = broadcast(factor);
  const auto element = [&](int64_t i, int64_t run) {
    const Vec x = load_run(args.head + i, run);
    return args.weight == nullptr ? x : mul(mul(x, scale), load_run(args.weight + i, run));
  };
  const auto first = [&](int64_t i, int64_t run) {
    const Vec product = mul(element(half + i, run), load_run(args.sine + i, run));
    return fma(element(i, run), load_run(args.cosine + i, run), sub(broadcast(0.0f), product));
  };
  const auto second = [&](int64_t i, int64_t run) {
    const Vec product = mul(element(i, run), load_run(args.sine + i, run));
    return fma(element(half + i, run), load_run(args.cosine + i, run), product);
  };
  fill(args.out, half, first);
  fill(element_at(args.out, half), half, second);
}

}  // namespace
// NOLINTEND(misc-definitions-in-headers)
}  // namespace zp::cpu
