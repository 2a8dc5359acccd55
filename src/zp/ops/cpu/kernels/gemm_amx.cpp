// bf16 rows times a panel on AMX tiles; compiled for AMX, called only on machines that have it. The hardware sums each
// row of a tile alone and in a fixed order, so a row's bits depend neither on its place in the tile nor on the others.
#include <immintrin.h>

#include "zp/ops/cpu/kernels/kernels.h"

namespace zp::cpu {
namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileDepth = 32;  // elements of k in one tile
constexpr int64_t kTileElements = kTileRows * kTileDepth;
constexpr int64_t kRowStride = 2 * kPanelColumns * static_cast<int64_t>(sizeof(uint16_t));  // of a panel, in bytes
constexpr int64_t kResultStride = kPanelColumns * static_cast<int64_t>(sizeof(float));

// All eight tiles hold 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Packed rows: [tile of 16 rows][k / 32][16][32], so that every tile is one run of memory.
void pack_rows(const std::byte* const* rows, int64_t row_count, int64_t k, int64_t k_padded, void* packed) {
  auto* out = static_cast<uint16_t*>(packed);
  const int64_t whole = k / kTileDepth * kTileDepth;
  for (int64_t begin = 0; begin < row_count; begin += kTileRows, out += kTileRows * k_padded) {
    for (int64_t r = 0; r < kTileRows; ++r) {
      uint16_t* to = out + r * kTileDepth;
      if (begin + r >= row_count) {
        for (int64_t i = 0; i < k_padded; i += kTileDepth, to += kTileElements)
          _mm512_storeu_si512(to, _mm512_setzero_si512());
        continue;
      }
      const auto* row = reinterpret_cast<const uint16_t*>(rows[begin + r]);
      for (int64_t i = 0; i < whole; i += kTileDepth, to += kTileElements)
        _mm512_storeu_si512(to, _mm512_loadu_si512(row + i));
      if (whole < k) {
        const auto lanes = static_cast<__mmask32>((1u << (k - whole)) - 1u);
        _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(lanes, row + whole));
      }
    }
  }
}

// 32 rows: two tiles of rows by two of columns.
inline void multiply_two(const uint16_t* a, const uint16_t* panel, int64_t k, float* c) {
  const uint16_t* a_below = a + kTileRows * k;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t i = 0; i < k; i += kTileDepth) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, panel, kRowStride);
    _tile_loadd(7, panel + kTileDepth, kRowStride);
    _tile_loadd(5, a_below, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    a += kTileElements;
    a_below += kTileElements;
    panel += kTileDepth * kPanelColumns;
  }
  _tile_stored(0, c, kResultStride);
  _tile_stored(1, c + 16, kResultStride);
  _tile_stored(2, c + kTileRows * kPanelColumns, kResultStride);
  _tile_stored(3, c + kTileRows * kPanelColumns + 16, kResultStride);
}

// The last 16 rows. Same order of sums, so the same bits.
inline void multiply_one(const uint16_t* a, const uint16_t* panel, int64_t k, float* c) {
  _tile_zero(0);
  _tile_zero(1);
  for (int64_t i = 0; i < k; i += kTileDepth) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, panel, kRowStride);
    _tile_loadd(7, panel + kTileDepth, kRowStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    a += kTileElements;
    panel += kTileDepth * kPanelColumns;
  }
  _tile_stored(0, c, kResultStride);
  _tile_stored(1, c + 16, kResultStride);
}

void multiply(const PanelProduct& product) {
  const TileConfig config;
  _tile_loadconfig(&config);
  const auto* a = static_cast<const uint16_t*>(product.rows_packed);
  const auto* panel = static_cast<const uint16_t*>(product.panel);
  float* c = product.c;
  for (int64_t left = product.rows; left > 0; left -= 2 * kTileRows) {
    if (left > kTileRows) {
      multiply_two(a, panel, product.k, c);
    } else {
      multiply_one(a, panel, product.k, c);
    }
    a += 2 * kTileRows * product.k;
    c += 2 * kTileRows * kPanelColumns;
  }
  _tile_release();
}

}  // namespace

GemmKernels gemm_kernels_amx() {
  return {.row_tile = kTileRows, .row_value_size = sizeof(uint16_t), .pack_rows = pack_rows, .multiply = multiply};
}

}  // namespace zp::cpu
