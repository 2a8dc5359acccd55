// Weights and routes that are drawn from a seed instead of read: for models of real shape without a checkpoint. The
// same bits on every backend, so this header is what they all compute with, kernels too. Philox4x32-10 is the
// counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC11,
// https://doi.org/10.1145/2063384.2063405): any element can be made by itself, in any order.
#pragma once

#include <cstdint>

namespace zp {

/// Four random words.
struct PhiloxWords {
  uint32_t word[4];
};

[[nodiscard]] constexpr PhiloxWords philox4x32(PhiloxWords counter, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32U);
  for (int32_t round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53U} * counter.word[0];
    const uint64_t b = uint64_t{0xCD9E8D57U} * counter.word[2];
    counter = {{static_cast<uint32_t>(b >> 32U) ^ counter.word[1] ^ k0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32U) ^ counter.word[3] ^ k1, static_cast<uint32_t>(a)}};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return counter;
}

/// A part of a matrix of random weights: rows [row, row + rows) and columns [column, column + columns). An element
/// depends on the key and on its place in the whole matrix alone. Its values are multiples of `unit`, from -510 to 510
/// times, nearly normal (sums of four uniform bytes), rounded to bf16: the model that they make is one stored in bf16.
struct DrawnMatrix {
  uint64_t key = 0;
  float unit = 0;  ///< drawn_unit() of the standard deviation that is wanted
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row = 0;
  int64_t column = 0;
};

/// The deviation of a uniform byte is sqrt((256^2 - 1) / 12), that of four of them twice this.
[[nodiscard]] constexpr float drawn_unit(double standard_deviation) {
  return static_cast<float>(standard_deviation / 147.80166891254423);
}

/// The word that element (row, column) of the whole matrix is made of, with those of its three neighbours: columns
/// [4 * quad, 4 * quad + 4).
[[nodiscard]] constexpr PhiloxWords drawn_words(uint64_t key, int64_t row, int64_t quad) {
  return philox4x32({{static_cast<uint32_t>(quad), static_cast<uint32_t>(static_cast<uint64_t>(quad) >> 32U),
                      static_cast<uint32_t>(row), static_cast<uint32_t>(static_cast<uint64_t>(row) >> 32U)}},
                    key);
}
/// Exact until its last rounding.
[[nodiscard]] constexpr float drawn_value(uint32_t word, float unit) {
  const auto sum = static_cast<int32_t>((word & 0xffU) + (word >> 8U & 0xffU) + (word >> 16U & 0xffU) + (word >> 24U));
  return static_cast<float>(sum - 510) * unit;
}

/// Which of `rows` rows of a table of routes (RouteArgs::table) a token takes: a hash of what it is and where it stands
/// in its sequence, so that it is routed alike whatever its neighbours, its rank and what was cached.
[[nodiscard]] constexpr int64_t drawn_route(int32_t token, int32_t position, int64_t rows) {
  const PhiloxWords words = philox4x32({{static_cast<uint32_t>(token), static_cast<uint32_t>(position), 0, 0}}, 0);
  const uint64_t hash = uint64_t{words.word[1]} << 32U | words.word[0];
  return static_cast<int64_t>(hash % static_cast<uint64_t>(rows));
}

}  // namespace zp
