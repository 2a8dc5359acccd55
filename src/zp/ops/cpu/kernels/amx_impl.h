// AMX tiles of 16 rows of 64 bytes, as all of our code uses them.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace zp::cpu {
namespace {

constexpr int64_t kAmxRows = 16;
constexpr int64_t kAmxDepth = 32;  // elements of k in one tile of bf16

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// In memory of its own: GCC 12 believes that the instruction reads only the first bytes of a local one, and drops the
// rest.
constexpr TileConfig kTileConfig;

inline void begin_amx() { _tile_loadconfig(&kTileConfig); }
inline void end_amx() { _tile_release(); }

}  // namespace
}  // namespace zp::cpu
