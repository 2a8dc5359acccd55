// Distributions.
#include "zp/simulate/random.h"

#include <algorithm>
#include <cmath>

namespace zp {

int64_t Random::between(int64_t low, int64_t high) noexcept {
  // The remainder's bias is below 2^-40 for the ranges that workloads have.
  return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
}

int64_t Random::skewed(int64_t low, double mean, int64_t high) noexcept {
  const double above = -std::log(1 - unit()) * (mean - static_cast<double>(low));
  return std::min<int64_t>(high, low + std::llround(above));
}

}  // namespace zp
