// Rows times a panel of 32 packed columns by fused multiply-add, in terms of the including file's Vec. Rows are f32
// (widened when packed, if they were bf16), weights f32 or bf16. Each element is one chain over k in rising order,
// whatever the number of rows, so blocking never shows in the bits.
#pragma once

namespace zp::cpu {
namespace {  // NOLINT(google-build-namespaces)

// Rows held in registers at once: with two vectors of columns each, 12 fill 24 of AVX-512's 32 registers, 6 fill 12 of
// the 16 of the others.
constexpr int64_t kRowTile = kLanes == 16 ? 12 : 6;
constexpr int64_t kPartColumns = 2 * kLanes;

// Packed rows: [tile][k][kRowTile], so that a step over k reads neighbours.
template <typename T>
void pack_rows(const std::byte* const* rows, int64_t row_count, int64_t k, int64_t k_padded, void* packed) {
  auto* out = static_cast<float*>(packed);
  for (int64_t begin = 0; begin < row_count; begin += kRowTile, out += kRowTile * k_padded) {
    for (int64_t r = 0; r < kRowTile; ++r) {
      if (begin + r >= row_count) {
        for (int64_t i = 0; i < k_padded; ++i) out[i * kRowTile + r] = 0.0f;
        continue;
      }
      const T* row = reinterpret_cast<const T*>(rows[begin + r]);
      int64_t i = 0;
      for (; i < k; i += kLanes) {
        const int64_t run = run_at(i, k);
        float lanes[kLanes];
        store(lanes, load_run(row + i, run));
        for (int64_t lane = 0; lane < run; ++lane) out[(i + lane) * kRowTile + r] = lanes[lane];
      }
      for (i = k; i < k_padded; ++i) out[i * kRowTile + r] = 0.0f;
    }
  }
}

// Adds one step over k: `a` holds this step's element of each row.
template <int64_t kRows>
inline void step(const float* a, Vec w0, Vec w1, Vec (&sums)[kRows][2]) {
  for (int64_t r = 0; r < kRows; ++r) {
    const Vec x = broadcast(a[r]);
    sums[r][0] = fma(x, w0, sums[r][0]);
    sums[r][1] = fma(x, w1, sums[r][1]);
  }
}

template <int64_t kRows>
inline void accumulate(const float* a, const float* w, int64_t k, Vec (&sums)[kRows][2]) {
  for (int64_t i = 0; i < k; ++i, a += kRowTile, w += kPanelColumns) step(a, load(w), load(w + kLanes), sums);
}

// bf16 panels hold pairs: [k / 2][32][2].
template <int64_t kRows>
inline void accumulate(const float* a, const uint16_t* w, int64_t k, Vec (&sums)[kRows][2]) {
  for (int64_t i = 0; i < k; i += 2, a += 2 * kRowTile, w += 2 * kPanelColumns) {
    const Pairs left = load_pairs(w);
    const Pairs right = load_pairs(w + 2 * kLanes);
    step(a, left.first, right.first, sums);
    step(a + kRowTile, left.second, right.second, sums);
  }
}

template <typename W, int64_t kRows>
void multiply_tile(const float* a, const W* panel, int64_t k, float* c) {
  constexpr int64_t kWordsPerColumn = sizeof(W) == sizeof(float) ? 1 : 2;
  for (int64_t column = 0; column < kPanelColumns; column += kPartColumns) {
    Vec sums[kRows][2];
    for (auto& row : sums) row[0] = row[1] = broadcast(0.0f);
    accumulate(a, panel + column * kWordsPerColumn, k, sums);
    for (int64_t r = 0; r < kRows; ++r) {
      store(c + r * kPanelColumns + column, sums[r][0]);
      store(c + r * kPanelColumns + column + kLanes, sums[r][1]);
    }
  }
}

template <typename W>
void multiply(const PanelProduct& product) {
  const auto* a = static_cast<const float*>(product.rows_packed);
  const auto* panel = static_cast<const W*>(product.panel);
  float* c = product.c;
  for (int64_t left = product.rows; left > 0; left -= kRowTile) {
    if (left == 1) {
      multiply_tile<W, 1>(a, panel, product.k, c);
    } else if (left <= 3) {
      multiply_tile<W, 3>(a, panel, product.k, c);
    } else if (left <= 6) {
      multiply_tile<W, 6>(a, panel, product.k, c);
    } else {
      multiply_tile<W, kRowTile>(a, panel, product.k, c);
    }
    a += kRowTile * product.k;
    c += kRowTile * kPanelColumns;
  }
}

template <typename T>
constexpr GemmKernels gemm_kernels() {
  return {.row_tile = kRowTile, .row_value_size = sizeof(float), .pack_rows = pack_rows<T>, .multiply = multiply<T>};
}

}  // namespace
}  // namespace zp::cpu
