// Vectors of 4 floats in the compiler's portable vector types. Included by one source file only, like its siblings.
#pragma once

#include <cstdint>
#include <cstring>

namespace zp::cpu {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Words = int32_t __attribute__((vector_size(16)));

struct Vec {
  static constexpr int64_t kLanes = 4;
  Floats v;
};
struct Mask {
  Words m;  // all ones or zero in each lane
};

inline Floats as_floats(Words bits) { return reinterpret_cast<Floats>(bits); }
inline Words as_words(Floats value) { return reinterpret_cast<Words>(value); }
inline Words all(int32_t x) { return Words{x, x, x, x}; }

inline Vec broadcast(float x) { return {Floats{x, x, x, x}}; }
inline Vec load(const float* p) {
  Vec a;
  std::memcpy(&a.v, p, sizeof(a.v));
  return a;
}
inline void store(float* p, Vec a) { std::memcpy(p, &a.v, sizeof(a.v)); }
inline Vec load(const uint16_t* p) { return {as_floats(Words{p[0], p[1], p[2], p[3]} << 16)}; }
/// Lanes of `yes` where the mask is set, of `no` elsewhere.
inline Vec select(Mask mask, Vec yes, Vec no) {
  return {as_floats((as_words(yes.v) & mask.m) | (as_words(no.v) & ~mask.m))};
}
inline Mask less(Vec a, Vec b) { return {a.v < b.v}; }
inline Mask equal(Vec a, Vec b) { return {a.v == b.v}; }
inline Mask is_nan(Vec a) { return {a.v != a.v}; }
/// Rounds to bf16, to nearest and even; NaN stays NaN.
inline void store(uint16_t* p, Vec a) {
  using Unsigned = uint32_t __attribute__((vector_size(16)));
  const auto bits = reinterpret_cast<Unsigned>(a.v);
  const Unsigned rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const auto nan = reinterpret_cast<Unsigned>(is_nan(a).m);
  const Unsigned chosen = ((bits | 0x400000u) & nan) | (rounded & ~nan);
  for (int i = 0; i < 4; ++i) p[i] = static_cast<uint16_t>(chosen[i] >> 16);
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

/// 4 pairs of bf16: the first and the second of each pair as floats.
struct Pairs {
  Vec first;
  Vec second;
};
inline Pairs load_pairs(const uint16_t* p) {
  Words bits;
  std::memcpy(&bits, p, sizeof(bits));
  return {{as_floats(bits << 16)}, {as_floats(bits & all(static_cast<int32_t>(0xffff0000u)))}};
}

inline Vec add(Vec a, Vec b) { return {a.v + b.v}; }
inline Vec sub(Vec a, Vec b) { return {a.v - b.v}; }
inline Vec mul(Vec a, Vec b) { return {a.v * b.v}; }
inline Vec div(Vec a, Vec b) { return {a.v / b.v}; }
/// a * b + c, in two roundings: the plain machine has no fused one.
inline Vec fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
/// Like the machine's own: `b` where either is NaN.
inline Vec max(Vec a, Vec b) { return select(less(b, a), a, b); }
inline Vec min(Vec a, Vec b) { return select(less(a, b), a, b); }
/// For |a| < 2^22: adding and taking away 1.5 * 2^23 leaves the nearest whole number.
inline Vec round(Vec a) {
  const Vec magic = broadcast(0x1.8p23f);
  return sub(add(a, magic), magic);
}
/// a * 2^n for whole n in [-126, 128]; in two factors, because 2^128 is no float.
inline Vec scale_by_power(Vec a, Vec n) {
  const Words whole = __builtin_convertvector(n.v, Words);
  const Words half = whole >> 1;
  return {a.v * as_floats((half + 127) << 23) * as_floats((whole - half + 127) << 23)};
}

}  // namespace
}  // namespace zp::cpu
