// Online-softmax attention of one key/value tile, in terms of the including file's Vec. Query rows lie in the lanes, so
// that a row's sums are chains over d and over tokens in rising order, and a token that a row does not see leaves no
// trace in it: its score is masked, and its value (perhaps NaN) is not multiplied.
#pragma once

namespace zp::cpu {
// NOLINTBEGIN(misc-definitions-in-headers): one source file an instruction set includes this, each for itself.
namespace {

constexpr int64_t kStripVecs = 2;
constexpr int64_t kStrip = kStripVecs * kLanes;
// Tokens, and elements of the head, whose sums are in registers at once.
constexpr int64_t kBlock = kLanes == 16 ? 8 : 4;

// A packed strip holds scaled queries, [D, strip] f32. A packed tile holds keys, [64, D] f32, then values likewise.
int64_t strip_bytes(int64_t head_dim) { return head_dim * kStrip * static_cast<int64_t>(sizeof(float)); }
int64_t tile_kv_bytes(int64_t head_dim) { return 2 * kTileTokens * head_dim * static_cast<int64_t>(sizeof(float)); }

template <typename T>
void pack_queries(const QueryStrip& strip) {
  auto* packed = static_cast<float*>(strip.packed);
  for (int64_t lane = 0; lane < kStrip; ++lane) {
    const T* row = reinterpret_cast<const T*>(strip.rows[lane]);
    for (int64_t d = 0; d < strip.head_dim; d += kLanes) {
      const int64_t run = run_at(d, strip.head_dim);
      float lanes[kLanes];
      store(lanes, row == nullptr ? broadcast(0.0f) : mul(load_run(row + d, run), broadcast(strip.scale)));
      for (int64_t i = 0; i < run; ++i) packed[(d + i) * kStrip + lane] = lanes[i];
    }
  }
}

// Keys after the last token are zero, because scores are computed for whole blocks of tokens.
template <typename T>
void pack_tile(const KeyValueTile& tile) {
  auto* keys = static_cast<float*>(tile.packed);
  float* values = keys + kTileTokens * tile.head_dim;
  for (int64_t t = 0; t < kTileTokens; ++t, keys += tile.head_dim, values += tile.head_dim) {
    if (t >= tile.tokens) {
      fill(keys, tile.head_dim, [](int64_t /*i*/, int64_t /*run*/) { return broadcast(0.0f); });
      continue;
    }
    const T* k = reinterpret_cast<const T*>(tile.k[t]);
    const T* v = reinterpret_cast<const T*>(tile.v[t]);
    fill(keys, tile.head_dim, [=](int64_t i, int64_t run) { return load_run(k + i, run); });
    fill(values, tile.head_dim, [=](int64_t i, int64_t run) { return load_run(v + i, run); });
  }
}

// scores[t] = q * k[t] for a block of tokens; -infinity where not seen.
void score_block(const AttentionTile& tile, int64_t t) {
  Vec sums[kBlock][kStripVecs];
  for (auto& sum : sums) sum[0] = sum[1] = broadcast(0.0f);
  const auto* queries = static_cast<const float*>(tile.queries);
  const float* keys = static_cast<const float*>(tile.keys_values) + t * tile.head_dim;
  for (int64_t d = 0; d < tile.head_dim; ++d) {
    const Vec q0 = load(queries + d * kStrip);
    const Vec q1 = load(queries + d * kStrip + kLanes);
    for (int64_t i = 0; i < kBlock; ++i) {
      const Vec key = broadcast(keys[i * tile.head_dim + d]);
      sums[i][0] = fma(q0, key, sums[i][0]);
      sums[i][1] = fma(q1, key, sums[i][1]);
    }
  }
  const bool masked = t + kBlock > tile.full_tokens;
  for (int64_t i = 0; i < kBlock; ++i) {
    for (int64_t j = 0; j < kStripVecs; ++j) {
      Vec score = sums[i][j];
      if (masked) {
        const Mask seen = less(broadcast(static_cast<float>(t + i)), load(tile.visible + j * kLanes));
        score = select(seen, score, broadcast(-kInfinity));
      }
      store(tile.scores + (t + i) * kStrip + j * kLanes, score);
    }
  }
}

// Turns scores into weights and brings top and sum up to date; returns what the output so far must be multiplied by.
// A tile of which a row sees nothing changes nothing in it: the factor is exactly 1 and the sum grows by 0.
Vec softmax_lanes(const AttentionTile& tile, int64_t lane) {
  float* scores = tile.scores + lane;
  const Vec top_before = load(tile.top + lane);
  Vec top = top_before;
  for (int64_t t = 0; t < tile.tokens; ++t) top = max(load(scores + t * kStrip), top);
  // All scores so far may be -infinity; differences to 0 are defined then, and all weights zero.
  const Vec base = select(equal(top, broadcast(-kInfinity)), broadcast(0.0f), top);
  const Vec factor = exp(sub(top_before, base));
  Vec added = broadcast(0.0f);
  for (int64_t t = 0; t < tile.tokens; ++t) {
    const Vec weight = exp(sub(load(scores + t * kStrip), base));
    store(scores + t * kStrip, weight);
    added = add(added, weight);
  }
  store(tile.top + lane, top);
  store(tile.sum + lane, fma(load(tile.sum + lane), factor, added));
  return factor;
}

// out[d] = out[d] * factor + sum over seen tokens of weight * v, for kCount elements of the head.
template <int64_t kCount>
void add_values(const AttentionTile& tile, int64_t d, const Vec (&factor)[kStripVecs]) {
  Vec sums[kCount][kStripVecs];
  for (int64_t i = 0; i < kCount; ++i)
    for (int64_t j = 0; j < kStripVecs; ++j)
      sums[i][j] = mul(load(tile.out + (d + i) * kStrip + j * kLanes), factor[j]);
  const float* weights = tile.scores;
  const float* values = static_cast<const float*>(tile.keys_values) + kTileTokens * tile.head_dim + d;
  int64_t t = 0;
  for (; t < tile.full_tokens; ++t, weights += kStrip, values += tile.head_dim) {
    const Vec w0 = load(weights);
    const Vec w1 = load(weights + kLanes);
    for (int64_t i = 0; i < kCount; ++i) {
      const Vec value = broadcast(values[i]);
      sums[i][0] = fma(w0, value, sums[i][0]);
      sums[i][1] = fma(w1, value, sums[i][1]);
    }
  }
  for (; t < tile.tokens; ++t, weights += kStrip, values += tile.head_dim) {
    const Vec token = broadcast(static_cast<float>(t));
    for (int64_t j = 0; j < kStripVecs; ++j) {
      const Mask seen = less(token, load(tile.visible + j * kLanes));
      const Vec weight = load(weights + j * kLanes);
      for (int64_t i = 0; i < kCount; ++i)
        sums[i][j] = select(seen, fma(weight, broadcast(values[i]), sums[i][j]), sums[i][j]);
    }
  }
  for (int64_t i = 0; i < kCount; ++i)
    for (int64_t j = 0; j < kStripVecs; ++j) store(tile.out + (d + i) * kStrip + j * kLanes, sums[i][j]);
}

void attention_tile(const AttentionTile& tile) {
  for (int64_t t = 0; t < tile.tokens; t += kBlock) score_block(tile, t);
  Vec factor[kStripVecs];
  for (int64_t j = 0; j < kStripVecs; ++j) factor[j] = softmax_lanes(tile, j * kLanes);
  int64_t d = 0;
  for (; d + kBlock <= tile.head_dim; d += kBlock) add_values<kBlock>(tile, d, factor);
  for (; d < tile.head_dim; ++d) add_values<1>(tile, d, factor);
}

template <typename T>
constexpr AttentionKernels attention_kernels() {
  return {.strip = kStrip,
          .strip_bytes = strip_bytes,
          .tile_bytes = tile_kv_bytes,
          .pack_queries = pack_queries<T>,
          .pack_tile = pack_tile<T>,
          .begin = nothing,
          .end = nothing,
          .run_tile = attention_tile};
}

}  // namespace
// NOLINTEND(misc-definitions-in-headers)
}  // namespace zp::cpu
