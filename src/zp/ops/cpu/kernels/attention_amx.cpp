// Attention of bf16 keys and values on AMX tiles; compiled for AMX, called only on machines that have it.
//
// Scores are keys times queries, so that query rows lie in the lanes, as in attention_impl.h. Weights are rounded to
// bf16 before they multiply values, and the sum that divides the result is the sum of the rounded ones. Tiles of values
// hold tokens that some lanes do not see: their weights are exactly zero there, which adds nothing to any number.
// Values that are no numbers would turn zeros into NaN; they are taken out of the tiles and multiplied one by one,
// where seen.
#include "zp/ops/cpu/kernels/kernels.h"
// The order matters: each builds on those before it.
// clang-format off
#include "zp/ops/cpu/kernels/simd/avx512.h"
#include "zp/ops/cpu/kernels/exp_impl.h"
#include "zp/ops/cpu/kernels/amx_impl.h"
// clang-format on

namespace zp::cpu {
namespace {

constexpr int64_t kStripVecs = 2;
constexpr int64_t kStrip = kStripVecs * kLanes;
constexpr int64_t kStripBytes = kStrip * static_cast<int64_t>(sizeof(float));  // between rows of lanes

int64_t padded(int64_t head_dim) { return (head_dim + 31) / 32 * 32; }

// A packed strip holds pairs of query elements, [D / 2, strip, 2] bf16, zeros after D.
int64_t strip_bytes(int64_t head_dim) { return padded(head_dim) * kStrip * static_cast<int64_t>(sizeof(uint16_t)); }

// A packed tile. Zeros after the last token and after D.
struct Tile {
  Tile(void* packed, int64_t head_dim)
      : keys(static_cast<uint16_t*>(packed)),
        values(keys + kTileTokens * padded(head_dim)),
        raw_values(values + kTileTokens * padded(head_dim)),
        has_bad_values(reinterpret_cast<int64_t*>(raw_values + kTileTokens * padded(head_dim))) {}

  uint16_t* keys;           // [64, padded D]
  uint16_t* values;         // [padded D, 64], zero where not finite
  uint16_t* raw_values;     // [64, padded D], set only if some value is not finite
  int64_t* has_bad_values;  // [1], whether one is
};
int64_t tile_bytes(int64_t head_dim) {
  return 3 * kTileTokens * padded(head_dim) * static_cast<int64_t>(sizeof(uint16_t)) + 64;
}

// The first `count` of 32 elements of 16 bits, all of them if there are more.
inline __mmask32 first_elements(int64_t count) {
  return count >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((1u << count) - 1u);
}

// Copies a row of D elements and fills it up with zeros.
void copy_row(const uint16_t* row, int64_t head_dim, uint16_t* to) {
  for (int64_t d = 0; d < head_dim; d += 32)
    _mm512_storeu_si512(to + d, _mm512_maskz_loadu_epi16(first_elements(head_dim - d), row + d));
}

// Elements [d, d + 16) of a value, widened to words; zeros where there are none.
inline __m512i load_words(const std::byte* value, int64_t d, int64_t head_dim) {
  const int64_t rest = head_dim - d;
  if (rest <= 0) return _mm512_setzero_si512();
  const auto lanes = rest >= 16 ? static_cast<__mmask16>(0xffff) : first_lanes(rest);
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, reinterpret_cast<const uint16_t*>(value) + d));
}

// Transposes 16 rows of 16 words.
inline void transpose(__m512i (&rows)[16]) {
  __m512i pairs[16];
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  __m512i fours[16];
  for (int i = 0; i < 16; i += 4) {
    fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i low = _mm512_shuffle_i32x4(fours[i], fours[i + 4], 0x88);
    const __m512i high = _mm512_shuffle_i32x4(fours[i], fours[i + 4], 0xdd);
    const __m512i low_after = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], 0x88);
    const __m512i high_after = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], 0xdd);
    rows[i] = _mm512_shuffle_i32x4(low, low_after, 0x88);
    rows[i + 4] = _mm512_shuffle_i32x4(high, high_after, 0x88);
    rows[i + 8] = _mm512_shuffle_i32x4(low, low_after, 0xdd);
    rows[i + 12] = _mm512_shuffle_i32x4(high, high_after, 0xdd);
  }
}

void pack_queries(const QueryStrip& strip) {
  auto* packed = static_cast<uint16_t*>(strip.packed);
  for (int64_t lane = 0; lane < kStrip; lane += kLanes) {
    for (int64_t d = 0; d < padded(strip.head_dim); d += 32) {
      const __mmask32 filled = first_elements(strip.head_dim - d);
      __m512i words[16];
      for (int64_t i = 0; i < kLanes; ++i) {
        const auto* row = reinterpret_cast<const uint16_t*>(strip.rows[lane + i]);
        words[i] = row == nullptr ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16(filled, row + d);
      }
      transpose(words);
      for (int64_t i = 0; i < kLanes; ++i) _mm512_storeu_si512(packed + ((d / 2 + i) * kStrip + lane) * 2, words[i]);
    }
  }
}

// values[d][t] = v[t][d], for 16 elements d and 32 tokens. Returns whether some value is not finite.
bool pack_values_block(const KeyValueTile& tile, int64_t token, int64_t d, uint16_t* values) {
  const __m512i exponents = _mm512_set1_epi16(0x7f80);
  __mmask32 bad = 0;
  __m512i words[16];
  for (int64_t i = 0; i < 16; ++i) {
    const int64_t t = token + 2 * i;
    words[i] = t < tile.tokens ? load_words(tile.v[t], d, tile.head_dim) : _mm512_setzero_si512();
    if (t + 1 < tile.tokens)
      words[i] = _mm512_or_si512(words[i], _mm512_slli_epi32(load_words(tile.v[t + 1], d, tile.head_dim), 16));
    const __mmask32 bad_here = _mm512_cmpeq_epi16_mask(_mm512_and_si512(words[i], exponents), exponents);
    words[i] = _mm512_maskz_mov_epi16(~bad_here, words[i]);
    bad |= bad_here;
  }
  transpose(words);
  for (int64_t i = 0; i < 16; ++i) _mm512_storeu_si512(values + (d + i) * kTileTokens + token, words[i]);
  return bad != 0;
}

void pack_tile(const KeyValueTile& tile) {
  const Tile packed(tile.packed, tile.head_dim);
  const int64_t stride = padded(tile.head_dim);
  for (int64_t t = 0; t < kTileTokens; ++t) {
    if (t < tile.tokens) {
      copy_row(reinterpret_cast<const uint16_t*>(tile.k[t]), tile.head_dim, packed.keys + t * stride);
    } else {
      for (int64_t d = 0; d < stride; d += 32)
        _mm512_storeu_si512(packed.keys + t * stride + d, _mm512_setzero_si512());
    }
  }
  bool bad = false;
  for (int64_t token = 0; token < kTileTokens; token += 32)
    for (int64_t d = 0; d < stride; d += 16) bad |= pack_values_block(tile, token, d, packed.values);
  *packed.has_bad_values = bad ? 1 : 0;
  if (!bad) return;
  for (int64_t t = 0; t < tile.tokens; ++t)
    copy_row(reinterpret_cast<const uint16_t*>(tile.v[t]), tile.head_dim, packed.raw_values + t * stride);
}

// Adds left * right to a block of 32 rows by the strip's 32 lanes: left [32 rows, k] lies row by row, right [k / 2,
// strip, 2] in pairs.
struct TileProduct {
  const uint16_t* left = nullptr;
  int64_t left_stride = 0;  // elements
  const uint16_t* right = nullptr;
  int64_t k = 0;
  float* c = nullptr;  // [32, strip]
  bool accumulate = false;
};

inline void multiply(const TileProduct& product) {
  const int64_t below = kAmxRows * product.left_stride;
  float* c_below = product.c + kAmxRows * kStrip;
  if (product.accumulate) {
    _tile_loadd(0, product.c, kStripBytes);
    _tile_loadd(1, product.c + kLanes, kStripBytes);
    _tile_loadd(2, c_below, kStripBytes);
    _tile_loadd(3, c_below + kLanes, kStripBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t i = 0; i < product.k; i += kAmxDepth) {
    _tile_loadd(4, product.left + i, product.left_stride * 2);
    _tile_loadd(6, product.right + i * kStrip, kStripBytes);
    _tile_loadd(7, product.right + i * kStrip + 2 * kLanes, kStripBytes);
    _tile_loadd(5, product.left + below + i, product.left_stride * 2);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, product.c, kStripBytes);
  _tile_stored(1, product.c + kLanes, kStripBytes);
  _tile_stored(2, c_below, kStripBytes);
  _tile_stored(3, c_below + kLanes, kStripBytes);
}

/// 2^x for x <= 0, within 2 ulp; 2^0 is exactly 1, NaN stays NaN, results below 2^-126 are zero. Cephes' polynomial.
inline Vec exp2_of_negative(Vec x) {
  const Vec lowest = broadcast(-126.0f);
  const Vec clamped = max(lowest, x);  // the second operand, where it is NaN
  const Vec n = round(clamped);
  const Vec f = sub(clamped, n);
  Vec p = broadcast(1.535336188319500e-4f);
  p = fma(p, f, broadcast(1.339887440266574e-3f));
  p = fma(p, f, broadcast(9.618437357674640e-3f));
  p = fma(p, f, broadcast(5.550332471162809e-2f));
  p = fma(p, f, broadcast(2.402264791363012e-1f));
  p = fma(p, f, broadcast(6.931472028550421e-1f));
  p = fma(p, f, broadcast(1.0f));
  return select(less(x, lowest), broadcast(0.0f), scale_by_power(p, n));
}

// Rounds a weight, of [0, 1] or NaN, to bf16 in the upper half of a word, to nearest and even.
inline __m512i rounded_words(Vec weight) {
  const __m512i bits = _mm512_castps_si512(weight.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i upper = _mm512_and_si512(rounded, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  return _mm512_mask_blend_epi32(is_nan(weight).m, upper, _mm512_set1_epi32(0x7fc00000));
}

// As in attention_impl.h, in powers of two: `top` is the largest score times scale * log2(e). Weights replace scores as
// pairs, [32, strip, 2] bf16: the pair of tokens t and t + 1 goes to row t / 2, which has been read by then.
Vec softmax_lanes(const AttentionTile& tile, int64_t lane) {
  float* scores = tile.scores + lane;
  const Vec scale = broadcast(tile.scale * 1.44269504088896341f);
  Vec largest = broadcast(-kInfinity);
  for (int64_t t = 0; t < tile.full_tokens; ++t) largest = max(load(scores + t * kStrip), largest);
  for (int64_t t = tile.full_tokens; t < tile.tokens; ++t) {
    const Mask seen = less(broadcast(static_cast<float>(t)), load(tile.visible + lane));
    const Vec score = select(seen, load(scores + t * kStrip), broadcast(-kInfinity));
    store(scores + t * kStrip, score);
    largest = max(score, largest);
  }
  const Vec top_before = load(tile.top + lane);
  const Vec top = max(mul(largest, scale), top_before);
  const Vec base = select(equal(top, broadcast(-kInfinity)), broadcast(0.0f), top);
  const Vec minus_base = sub(broadcast(0.0f), base);
  const Vec factor = exp2_of_negative(add(top_before, minus_base));
  const auto weight = [&](int64_t t) {
    return rounded_words(exp2_of_negative(fma(load(scores + t * kStrip), scale, minus_base)));
  };
  Vec added = broadcast(0.0f);
  for (int64_t t = 0; t < kTileTokens; t += 2) {
    const __m512i first = t < tile.tokens ? weight(t) : _mm512_setzero_si512();
    const __m512i second = t + 1 < tile.tokens ? weight(t + 1) : _mm512_setzero_si512();
    added = add(added, add(Vec{_mm512_castsi512_ps(first)}, Vec{_mm512_castsi512_ps(second)}));
    _mm512_storeu_si512(scores + t / 2 * kStrip, _mm512_or_si512(_mm512_srli_epi32(first, 16), second));
  }
  store(tile.top + lane, top);
  store(tile.sum + lane, fma(load(tile.sum + lane), factor, added));
  return factor;
}

// Most tiles bring no lane a larger score; multiplying by 1 is left out then.
void rescale(const AttentionTile& tile, int64_t lane, Vec factor) {
  if (equal(factor, broadcast(1.0f)).m == 0xffff) return;
  for (int64_t d = 0; d < tile.head_dim; ++d) {
    float* out = tile.out + d * kStrip + lane;
    store(out, mul(load(out), factor));
  }
}

// out[d] += weight * value for the values that are not finite, in the lanes that see them.
void add_bad_values(const AttentionTile& tile, const Tile& packed) {
  const int64_t stride = padded(tile.head_dim);
  for (int64_t t = 0; t < tile.tokens; ++t) {
    for (int64_t d = 0; d < tile.head_dim; ++d) {
      const uint16_t bits = packed.raw_values[t * stride + d];
      if ((bits & 0x7f80) != 0x7f80) continue;
      const Vec value{_mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(uint32_t{bits} << 16)))};
      for (int64_t lane = 0; lane < kStrip; lane += kLanes) {
        const __m512i words = _mm512_loadu_si512(tile.scores + t / 2 * kStrip + lane);
        const __m512i bits_of_weight = t % 2 == 0
                                           ? _mm512_slli_epi32(words, 16)
                                           : _mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
        const Mask seen = less(broadcast(static_cast<float>(t)), load(tile.visible + lane));
        float* out = tile.out + d * kStrip + lane;
        store(out, select(seen, fma(Vec{_mm512_castsi512_ps(bits_of_weight)}, value, load(out)), load(out)));
      }
    }
  }
}

void run_tile(const AttentionTile& tile) {
  const Tile packed(const_cast<void*>(tile.keys_values), tile.head_dim);
  const int64_t stride = padded(tile.head_dim);
  for (int64_t t = 0; t < tile.tokens; t += 32)
    multiply({.left = packed.keys + t * stride,
              .left_stride = stride,
              .right = static_cast<const uint16_t*>(tile.queries),
              .k = stride,
              .c = tile.scores + t * kStrip});
  for (int64_t lane = 0; lane < kStrip; lane += kLanes) rescale(tile, lane, softmax_lanes(tile, lane));
  // All 64 tokens, whatever `tokens` is: a step of zeros may turn -0 into 0, so every lane must see the same steps.
  for (int64_t d = 0; d < stride; d += 32)
    multiply({.left = packed.values + d * kTileTokens,
              .left_stride = kTileTokens,
              .right = reinterpret_cast<const uint16_t*>(tile.scores),
              .k = kTileTokens,
              .c = tile.out + d * kStrip,
              .accumulate = true});
  if (*packed.has_bad_values != 0) add_bad_values(tile, packed);
}

}  // namespace

AttentionKernels attention_kernels_amx() {
  return {.strip = kStrip,
          .strip_bytes = strip_bytes,
          .tile_bytes = tile_bytes,
          .pack_queries = pack_queries,
          .pack_tile = pack_tile,
          .begin = begin_amx,
          .end = end_amx,
          .run_tile = run_tile};
}

}  // namespace zp::cpu
