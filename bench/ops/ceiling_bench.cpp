// What one core can multiply at best: operands in registers or tiles, nothing loaded. Read the other benchmarks beside
// it.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include "zp/ops/cpu/cpu_features.h"

namespace zp {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr TileConfig kTileConfig;
constexpr int64_t kSteps = 1000;

__attribute__((target("amx-tile,amx-bf16"))) void multiply_tiles() {
  _tile_loadconfig(&kTileConfig);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t i = 0; i < kSteps; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

__attribute__((target("avx512f"))) float multiply_vectors() {
  __m512 sums[12];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  __m512 a = _mm512_set1_ps(1.0f);
  __m512 b = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < kSteps; ++i) {
    for (auto& sum : sums) sum = _mm512_fmadd_ps(a, b, sum);
    asm volatile("" : "+v"(a), "+v"(b));
  }
  float total = 0;
  for (const auto& sum : sums) total += _mm512_cvtss_f32(sum);
  return total;
}

void amx_bf16_one_core(benchmark::State& state) {
  if (cpu::detect_isa() < cpu::Isa::kAmx) {
    state.SkipWithError("no AMX");
    return;
  }
  for (auto _ : state) multiply_tiles();
  state.counters["GFLOP/s"] =
      benchmark::Counter(1e-9 * kSteps * 4 * 2 * 16 * 16 * 32, benchmark::Counter::kIsIterationInvariantRate);
}

void avx512_f32_one_core(benchmark::State& state) {
  if (cpu::detect_isa() < cpu::Isa::kAvx512) {
    state.SkipWithError("no AVX-512");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(multiply_vectors());
  state.counters["GFLOP/s"] =
      benchmark::Counter(1e-9 * kSteps * 12 * 2 * 16, benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(amx_bf16_one_core)->Name("ceiling/amx_bf16_one_core");
BENCHMARK(avx512_f32_one_core)->Name("ceiling/avx512_f32_one_core");

}  // namespace
}  // namespace zp
