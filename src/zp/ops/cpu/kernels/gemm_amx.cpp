// bf16 rows times a panel on AMX tiles; compiled for AMX, called only on machines that have it. The hardware sums each
// row of a tile alone and in a fixed order, so a row's bits depend neither on its place in the tile nor on the others.
#include "zp/ops/cpu/kernels/amx_impl.h"
#include "zp/ops/cpu/kernels/kernels.h"

namespace zp::cpu {
namespace {

constexpr int64_t kTileElements = kAmxRows * kAmxDepth;
constexpr int64_t kRowStride = 2 * kPanelColumns * static_cast<int64_t>(sizeof(uint16_t));  // of a panel, in bytes
constexpr int64_t kResultStride = kPanelColumns * static_cast<int64_t>(sizeof(float));

int64_t tile_bytes(int64_t k_padded) { return kAmxRows * k_padded * static_cast<int64_t>(sizeof(uint16_t)); }

// Packed rows: [tile of 16 rows][k / 32][16][32], so that every tile is one run of memory.
void pack_rows(const std::byte* const* rows, int64_t row_count, int64_t k, int64_t k_padded, void* packed) {
  auto* out = static_cast<uint16_t*>(packed);
  const int64_t whole = k / kAmxDepth * kAmxDepth;
  for (int64_t begin = 0; begin < row_count; begin += kAmxRows, out += kAmxRows * k_padded) {
    for (int64_t r = 0; r < kAmxRows; ++r) {
      uint16_t* to = out + r * kAmxDepth;
      if (begin + r >= row_count) {
        for (int64_t i = 0; i < k_padded; i += kAmxDepth, to += kTileElements)
          _mm512_storeu_si512(to, _mm512_setzero_si512());
        continue;
      }
      const auto* row = reinterpret_cast<const uint16_t*>(rows[begin + r]);
      for (int64_t i = 0; i < whole; i += kAmxDepth, to += kTileElements)
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
  const uint16_t* a_below = a + kAmxRows * block.k;
  const uint16_t* panel = block.panel;
  const int64_t panel_elements = block.k * kPanelColumns;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t i = 0; i < block.k; i += kAmxDepth) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, panel, kRowStride);
    _tile_loadd(7, panel + kAmxDepth, kRowStride);
    _tile_loadd(5, a_below, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    prefetch(panel + panel_elements, block.prefetch_first, block.prefetch_last);
    a += kTileElements;
    a_below += kTileElements;
    panel += kAmxDepth * kPanelColumns;
  }
  _tile_stored(0, block.c, kResultStride);
  _tile_stored(1, block.c + 16, kResultStride);
  _tile_stored(2, block.c + kAmxRows * kPanelColumns, kResultStride);
  _tile_stored(3, block.c + kAmxRows * kPanelColumns + 16, kResultStride);
}

// The last 16 rows. Same order of sums, so the same bits.
inline void multiply_one(const Block& block) {
  const uint16_t* a = block.a;
  const uint16_t* panel = block.panel;
  const int64_t panel_elements = block.k * kPanelColumns;
  _tile_zero(0);
  _tile_zero(1);
  for (int64_t i = 0; i < block.k; i += kAmxDepth) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, panel, kRowStride);
    _tile_loadd(7, panel + kAmxDepth, kRowStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    prefetch(panel + panel_elements, block.prefetch_first, block.prefetch_last);
    a += kTileElements;
    panel += kAmxDepth * kPanelColumns;
  }
  _tile_stored(0, block.c, kResultStride);
  _tile_stored(1, block.c + 16, kResultStride);
}

void multiply(const PanelProduct& product) {
  constexpr int64_t kStepLines = 32;
  const int64_t blocks = (product.rows + 2 * kAmxRows - 1) / (2 * kAmxRows);
  Block block{.a = static_cast<const uint16_t*>(product.rows_packed),
              .panel = static_cast<const uint16_t*>(product.panel),
              .k = product.k,
              .c = product.c};
  for (int64_t b = 0; b < blocks; ++b) {
    block.prefetch_first = kStepLines * b / blocks;
    block.prefetch_last = kStepLines * (b + 1) / blocks;
    if (product.rows - b * 2 * kAmxRows > kAmxRows) {
      multiply_two(block);
    } else {
      multiply_one(block);
    }
    block.a += 2 * kAmxRows * product.k;
    block.c += 2 * kAmxRows * kPanelColumns;
  }
}

}  // namespace

GemmKernels gemm_kernels_amx() {
  return {.row_tile = kAmxRows,
          .tile_bytes = tile_bytes,
          .pack_rows = pack_rows,
          .begin = begin_amx,
          .end = end_amx,
          .multiply = multiply};
}

}  // namespace zp::cpu
