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

int64_t tile_bytes(int64_t k_padded) { return kTileRows * k_padded * static_cast<int64_t>(sizeof(uint16_t)); }

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

// Fetches a step's share of the next panel into the L2 cache: lines [first, last) of the 32 that a step reads.
inline void prefetch(const uint16_t* panel_next, int64_t first, int64_t last) {
  const char* lines = reinterpret_cast<const char*>(panel_next);
  for (int64_t line = first; line < last; ++line) _mm_prefetch(lines + line * 64, _MM_HINT_T1);
}

struct Block {
  const uint16_t* a = nullptr;
  const uint16_t* panel = nullptr;
  int64_t k = 0;
  float* c = nullptr;
  int64_t prefetch_first = 0;  // lines of each step that this block fetches of the next panel
  int64_t prefetch_last = 0;
};

// 32 rows: two tiles of rows by two of columns.
inline void multiply_two(const Block& block) {
  const uint16_t* a = block.a;
  const uint16_t* a_below = a + kTileRows * block.k;
  const uint16_t* panel = block.panel;
  const int64_t panel_elements = block.k * kPanelColumns;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t i = 0; i < block.k; i += kTileDepth) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, panel, kRowStride);
    _tile_loadd(7, panel + kTileDepth, kRowStride);
    _tile_loadd(5, a_below, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    prefetch(panel + panel_elements, block.prefetch_first, block.prefetch_last);
    a += kTileElements;
    a_below += kTileElements;
    panel += kTileDepth * kPanelColumns;
  }
  _tile_stored(0, block.c, kResultStride);
  _tile_stored(1, block.c + 16, kResultStride);
  _tile_stored(2, block.c + kTileRows * kPanelColumns, kResultStride);
  _tile_stored(3, block.c + kTileRows * kPanelColumns + 16, kResultStride);
}

// The last 16 rows. Same order of sums, so the same bits.
inline void multiply_one(const Block& block) {
  const uint16_t* a = block.a;
  const uint16_t* panel = block.panel;
  const int64_t panel_elements = block.k * kPanelColumns;
  _tile_zero(0);
  _tile_zero(1);
  for (int64_t i = 0; i < block.k; i += kTileDepth) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, panel, kRowStride);
    _tile_loadd(7, panel + kTileDepth, kRowStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    prefetch(panel + panel_elements, block.prefetch_first, block.prefetch_last);
    a += kTileElements;
    panel += kTileDepth * kPanelColumns;
  }
  _tile_stored(0, block.c, kResultStride);
  _tile_stored(1, block.c + 16, kResultStride);
}

// In memory of its own: GCC 12 believes that the instruction reads only the first bytes of a local one, and drops the
// rest.
constexpr TileConfig kTileConfig;

void begin() { _tile_loadconfig(&kTileConfig); }

void end() { _tile_release(); }

void multiply(const PanelProduct& product) {
  constexpr int64_t kStepLines = 32;
  const int64_t blocks = (product.rows + 2 * kTileRows - 1) / (2 * kTileRows);
  Block block{.a = static_cast<const uint16_t*>(product.rows_packed),
              .panel = static_cast<const uint16_t*>(product.panel),
              .k = product.k,
              .c = product.c};
  for (int64_t b = 0; b < blocks; ++b) {
    block.prefetch_first = kStepLines * b / blocks;
    block.prefetch_last = kStepLines * (b + 1) / blocks;
    if (product.rows - b * 2 * kTileRows > kTileRows) {
      multiply_two(block);
    } else {
      multiply_one(block);
    }
    block.a += 2 * kTileRows * product.k;
    block.c += 2 * kTileRows * kPanelColumns;
  }
}

}  // namespace

GemmKernels gemm_kernels_amx() {
  return {.row_tile = kTileRows,
          .tile_bytes = tile_bytes,
          .pack_rows = pack_rows,
          .begin = begin,
          .end = end,
          .multiply = multiply};
}

}  // namespace zp::cpu
