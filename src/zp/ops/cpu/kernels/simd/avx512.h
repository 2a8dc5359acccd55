// Vectors of 16 floats. Included by one source file only, the one compiled for this instruction set: everything is in
// an unnamed namespace, so that no other file can be linked to code its machine cannot run.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace zp::cpu {
namespace {

struct Vec {
  static constexpr int64_t kLanes = 16;
  __m512 v;
};
struct Mask {
  __mmask16 m;
};

inline Vec broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
inline __mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1u); }
/// The first `count` < kLanes lanes; the others are zero.
inline Vec load_some(const float* p, int64_t count) { return {_mm512_maskz_loadu_ps(first_lanes(count), p)}; }
inline void store_some(float* p, Vec a, int64_t count) { _mm512_mask_storeu_ps(p, first_lanes(count), a.v); }

inline Vec widen(__m256i bits) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))}; }
inline Vec load(const uint16_t* p) { return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
inline Vec load_some(const uint16_t* p, int64_t count) {
  return widen(_mm256_maskz_loadu_epi16(first_lanes(count), p));
}
/// Rounds to bf16, to nearest and even; NaN stays NaN.
inline __m256i narrow(Vec a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_blend_epi32(nan, rounded, quiet), 16));
}
inline void store(uint16_t* p, Vec a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(a)); }
inline void store_some(uint16_t* p, Vec a, int64_t count) {
  _mm256_mask_storeu_epi16(p, first_lanes(count), narrow(a));
}

/// 16 pairs of bf16: the first and the second of each pair as floats.
struct Pairs {
  Vec first;
  Vec second;
};
inline Pairs load_pairs(const uint16_t* p) {
  const __m512i bits = _mm512_loadu_si512(p);
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))},
          {_mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))}};
}

inline Vec add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec sub(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec mul(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec div(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
/// a * b + c
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec round(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
/// a * 2^n for whole n in [-126, 128]
inline Vec scale_by_power(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }

inline Mask less(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask equal(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask is_nan(Vec a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
/// Lanes of `yes` where the mask is set, of `no` elsewhere.
inline Vec select(Mask mask, Vec yes, Vec no) { return {_mm512_mask_blend_ps(mask.m, no.v, yes.v)}; }

}  // namespace
}  // namespace zp::cpu
