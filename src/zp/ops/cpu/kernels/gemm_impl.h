// Rows times a panel of 32 packed columns by fused multiply-add, in terms of the including file's Vec. Rows are f32
// (widened when packed, if they were bf16), weights f32 or bf16. Each element is one chain over k in rising order,
// whatever the number of rows, so blocking never shows in the bits.
#pragma once

namespace zp::cpu {
// NOLINTBEGIN(misc-definitions-in-headers): one source file an instruction set includes this, each for itself.
namespace {

// Rows held in registers at once: with two vectors of columns each, 12 fill 24 of AVX-512's 32 registers, 6 fill 12 of
// the 16 of the others.
constexpr int64_t kRowTile = kLanes == 16 ? 12 : 6;
constexpr int64_t kPartColumns = 2 * kLanes;

// Packed rows are f32 rows this many elements apart. Rows of 2^n bytes would all fall into the same few lines of the
// cache; one line more keeps them apart.
constexpr int64_t row_stride(int64_t k_padded) { return k_padded + 16; }

int64_t tile_bytes(int64_t k_padded) { return kRowTile * row_stride(k_padded) * static_cast<int64_t>(sizeof(float)); }

template <typename T>
void pack_rows(const std::byte* const* rows, int64_t row_count, int64_t k, int64_t k_padded, void* packed) {
  auto* out = static_cast<float*>(packed);
  const int64_t row_count_padded = (row_count + kRowTile - 1) / kRowTile * kRowTile;
  for (int64_t r = 0; r < row_count_padded; ++r, out += row_stride(k_padded)) {
    const int64_t filled = r < row_count ? k : 0;
    if (r < row_count) {
      const T* row = reinterpret_cast<const T*>(rows[r]);
      fill(out, k, [=](int64_t i, int64_t run) { return load_run(row + i, run); });
    }
    for (int64_t i = filled; i < k_padded; ++i) out[i] = 0.0f;
  }
}

void nothing() {}

// Fetches the same part of the next panel that this step reads of this one. Row tiles share the work: tile t of n does
// every n-th step, so that memory is read at an even pace.
class Prefetcher final {
 public:
  Prefetcher(const void* panel, int64_t panel_bytes, int64_t tile, int64_t tiles)
      : next_(static_cast<const char*>(panel) + panel_bytes), step_(tile), tiles_(tiles) {}
  // Called once for each 128 bytes of the panel.
  void step(int64_t i) {
    if (i != step_) return;
    step_ += tiles_;
    __builtin_prefetch(next_ + i * 128, 0, 2);
    __builtin_prefetch(next_ + i * 128 + 64, 0, 2);
  }

 private:
  const char* next_;
  int64_t step_;
  int64_t tiles_;
};

// Adds one step over k: `a` is this step's element of the first row.
template <int64_t kRows>
inline void step(const float* a, int64_t stride, Vec w0, Vec w1, Vec (&sums)[kRows][2]) {
  for (int64_t r = 0; r < kRows; ++r) {
    const Vec x = broadcast(a[r * stride]);
    sums[r][0] = fma(x, w0, sums[r][0]);
    sums[r][1] = fma(x, w1, sums[r][1]);
  }
}

template <int64_t kRows>
inline void accumulate(const float* a, int64_t k, const float* w, Prefetcher prefetcher, Vec (&sums)[kRows][2]) {
  const int64_t stride = row_stride(k);
  for (int64_t i = 0; i < k; ++i, ++a, w += kPanelColumns) {
    step(a, stride, load(w), load(w + kLanes), sums);
    prefetcher.step(i);
  }
}

// bf16 panels hold pairs: [k / 2][32][2].
template <int64_t kRows>
inline void accumulate(const float* a, int64_t k, const uint16_t* w, Prefetcher prefetcher, Vec (&sums)[kRows][2]) {
  const int64_t stride = row_stride(k);
  for (int64_t i = 0; i < k / 2; ++i, a += 2, w += 2 * kPanelColumns) {
    const Pairs left = load_pairs(w);
    const Pairs right = load_pairs(w + 2 * kLanes);
    step(a, stride, left.first, right.first, sums);
    step(a + 1, stride, left.second, right.second, sums);
    prefetcher.step(i);
  }
}

template <typename W, int64_t kRows>
void multiply_tile(const PanelProduct& product, int64_t tile) {
  constexpr int64_t kWordsPerColumn = sizeof(W) == sizeof(float) ? 1 : 2;
  const auto* panel = static_cast<const W*>(product.panel);
  const float* a = static_cast<const float*>(product.rows_packed) + tile * kRowTile * row_stride(product.k);
  float* c = product.c + tile * kRowTile * kPanelColumns;
  const int64_t panel_bytes = product.k * kPanelColumns * static_cast<int64_t>(sizeof(W));
  const int64_t tiles = (product.rows + kRowTile - 1) / kRowTile;
  constexpr int64_t kParts = kPanelColumns / kPartColumns;
  for (int64_t part = 0; part < kParts; ++part) {
    const int64_t column = part * kPartColumns;
    Vec sums[kRows][2];
    for (auto& row : sums) row[0] = row[1] = broadcast(0.0f);
    accumulate(a, product.k, panel + column * kWordsPerColumn,
               Prefetcher(panel, panel_bytes, tile * kParts + part, tiles * kParts), sums);
    for (int64_t r = 0; r < kRows; ++r) {
      store(c + r * kPanelColumns + column, sums[r][0]);
      store(c + r * kPanelColumns + column + kLanes, sums[r][1]);
    }
  }
}

template <typename W>
void multiply(const PanelProduct& product) {
  int64_t tile = 0;
  for (int64_t left = product.rows; left > 0; left -= kRowTile, ++tile) {
    if (left == 1) {
      multiply_tile<W, 1>(product, tile);
    } else if (left <= 3) {
      multiply_tile<W, 3>(product, tile);
    } else if (left <= 6) {
      multiply_tile<W, 6>(product, tile);
    } else {
      multiply_tile<W, kRowTile>(product, tile);
    }
  }
}

template <typename T>
constexpr GemmKernels gemm_kernels() {
  return {.row_tile = kRowTile,
          .tile_bytes = tile_bytes,
          .pack_rows = pack_rows<T>,
          .begin = nothing,
          .end = nothing,
          .multiply = multiply<T>};
}

}  // namespace
// NOLINTEND(misc-definitions-in-headers)
}  // namespace zp::cpu
