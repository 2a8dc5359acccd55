// Numbers that are the same on every machine and with every library: what the standard leaves open is not used.
#pragma once

#include <cstdint>

namespace zp {

/// Spreads the bits of a number; distinct for distinct inputs. (The finalizer of SplitMix64.)
[[nodiscard]] constexpr uint64_t mixed_bits(uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// A sequence of numbers from a seed.
class Random final {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  [[nodiscard]] uint64_t next() noexcept { return mixed_bits(state_++); }
  /// In [0, 1).
  [[nodiscard]] double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [low, high]. Requires low <= high.
  [[nodiscard]] int64_t between(int64_t low, int64_t high) noexcept;
  /// low plus an exponential of mean `mean` - low, cut off at `high`. Requires low < mean < high.
  [[nodiscard]] int64_t skewed(int64_t low, double mean, int64_t high) noexcept;

 private:
  uint64_t state_;
};

}  // namespace zp
