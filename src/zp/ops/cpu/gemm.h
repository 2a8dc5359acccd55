// Matrix products over packed weights: how rows and panels are divided into items of work.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "zp/ops/cpu/workers.h"

namespace zp::cpu {

/// Rows [row, row + rows) times panels [panel, panel + panels).
struct ProductItem {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t panel = 0;
  int64_t panels = 0;
};

/// Divides a product into items of at most max_rows rows, and into fewer panels an item where rows alone would leave
/// threads idle. Any division gives the same bits.
class ProductSplit final {
 public:
  ProductSplit(int64_t rows, int64_t panels, int64_t max_rows, int64_t items_wanted)
      : rows_(rows), panels_(panels), row_chunks_(ceil_div(rows, max_rows)) {
    // Packing an item's rows is worth it for a few panels at least.
    constexpr int64_t kPanelsMin = 4;
    if (rows == 0 || panels == 0) return;
    chunk_rows_ = ceil_div(rows, row_chunks_);
    const int64_t splits = std::clamp(ceil_div(items_wanted, row_chunks_), int64_t{1}, ceil_div(panels, kPanelsMin));
    chunk_panels_ = ceil_div(panels, splits);
    count_ = row_chunks_ * ceil_div(panels, chunk_panels_);
  }
  [[nodiscard]] int64_t count() const noexcept { return count_; }
  /// Neighbouring items read the same panels, so that threads share them in the cache.
  [[nodiscard]] ProductItem operator[](int64_t index) const noexcept {
    const int64_t row = index % row_chunks_ * chunk_rows_;
    const int64_t panel = index / row_chunks_ * chunk_panels_;
    return {.row = row,
            .rows = std::clamp(rows_ - row, int64_t{0}, chunk_rows_),
            .panel = panel,
            .panels = std::min(chunk_panels_, panels_ - panel)};
  }

 private:
  int64_t rows_;
  int64_t panels_;
  int64_t row_chunks_;
  int64_t chunk_rows_ = 0;
  int64_t chunk_panels_ = 0;
  int64_t count_ = 0;
};

/// Up to kChunkRows rows of k elements of A, packed into a thread's scratch for any number of panels. Lives on the
/// thread that multiplies.
class PackedRows final {
 public:
  PackedRows(const Workers& workers, const ThreadScratch& scratch, int64_t k)
      : gemm_(workers.gemm()), scratch_(scratch), k_(k), k_padded_(workers.layout().padded_k(k)) {}

  ~PackedRows() {
    if (packed_) gemm_.end();
  }
  PackedRows(const PackedRows&) = delete;
  PackedRows& operator=(const PackedRows&) = delete;

  /// The most rows that fit; whole tiles.
  [[nodiscard]] static int64_t rows_max(const Workers& workers, int64_t k);

  void add(const std::byte* row) { rows_[static_cast<size_t>(count_++)] = row; }
  /// Once, after the last row and before the first product.
  void pack() {
    gemm_.pack_rows(rows_.data(), count_, k_, k_padded_, scratch_.rows);
    gemm_.begin();
    packed_ = true;
  }
  [[nodiscard]] int64_t count() const noexcept { return count_; }

  /// All rows times one panel: [count, 32], valid until the next call.
  [[nodiscard]] const float* multiply(const std::byte* panel) const {
    gemm_.multiply(
        {.rows_packed = scratch_.rows, .rows = count_, .panel = panel, .k = k_padded_, .c = scratch_.product});
    return scratch_.product;
  }

 private:
  const GemmKernels& gemm_;
  ThreadScratch scratch_;
  int64_t k_;
  int64_t k_padded_;
  int64_t count_ = 0;
  bool packed_ = false;
  std::array<const std::byte*, Workers::kChunkRows> rows_{};
};

/// out = x * weight^T, or out += that.
void linear(Workers& workers, const LinearArgs& args);

}  // namespace zp::cpu
