// Vectors of 8 floats. Included by one source file only, the one compiled for this instruction set: everything is in
// an unnamed namespace, so that no other file can be linked to code its machine cannot run.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace zp::cpu {
namespace {

struct Vec {
  static constexpr int64_t kLanes = 8;
  __m256 v;
};
struct Mask {
  __m256 m;
};

inline Vec broadcast(float x) { return {_mm256_set1_ps(x)}; }
inline Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline void store(float* p, Vec a) { _mm256_storeu_ps(p, a.v); }
inline Vec load(const uint16_t* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
}
/// Rounds to bf16, to nearest and even; NaN stays NaN.
inline void store(uint16_t* p, Vec a) {
  const __m256i bits = _mm256_castps_si256(a.v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 nan = _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q);
  const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan)), 16);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1)));
}
/// The first `count` < kLanes lanes; the others are zero.
template <typename T>
inline Vec load_some(const T* p, int64_t count) {
  T lanes[Vec::kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
}
template <typename T>
inline void store_some(T* p, Vec a, int64_t count) {
  T lanes[Vec::kLanes];
  store(lanes, a);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

/// 8 pairs of bf16: the first and the second of each pair as floats.
struct Pairs {
  Vec first;
  Vec second;
};
inline Pairs load_pairs(const uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {{_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16))},
          {_mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xffff0000u))))}};
}

inline Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec sub(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec mul(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec div(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
/// a * b + c
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Vec round(Vec a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
inline __m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
/// a * 2^n for whole n in [-126, 128]; in two factors, because 2^128 is no float.
inline Vec scale_by_power(Vec a, Vec n) {
  const __m256i whole = _mm256_cvtps_epi32(n.v);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  return {_mm256_mul_ps(_mm256_mul_ps(a.v, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)))};
}

inline Mask less(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask equal(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask is_nan(Vec a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
/// Lanes of `yes` where the mask is set, of `no` elsewhere.
inline Vec select(Mask mask, Vec yes, Vec no) { return {_mm256_blendv_ps(no.v, yes.v, mask.m)}; }

}  // namespace
}  // namespace zp::cpu
