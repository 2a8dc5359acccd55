// The 16-bit types, exhaustively, against arithmetic in double that shares no code with the conversions.
#include "zp/tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace zp {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
};
constexpr Format kBf16Format{8, 7};
constexpr Format kF16Format{5, 10};

// The value of a bit pattern by the definition of the format.
double value_of(uint16_t bits, const Format& format) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int exponent = (bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double sign = (bits >> 15) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << format.exponent_bits) - 1)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << format.mantissa_bits), exponent - bias - format.mantissa_bits);
}

TEST(Bf16, EveryValueWidensExactlyAndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    const float widened = to_float(Bf16{pattern});
    const double wanted = value_of(pattern, kBf16Format);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(widened)) << bits;
      ASSERT_TRUE(std::isnan(to_float(to_bf16(widened)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(widened), wanted) << bits;
    ASSERT_EQ(std::signbit(widened), (bits >> 15) != 0) << bits;
    ASSERT_EQ(to_bf16(widened).bits, pattern) << bits;
  }
}

TEST(F16, EveryValueWidensExactly) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    const float widened = to_float(F16{pattern});
    const double wanted = value_of(pattern, kF16Format);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(widened)) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(widened), wanted) << bits;
    ASSERT_EQ(std::signbit(widened), (bits >> 15) != 0) << bits;
  }
}

// Round to nearest, ties to even, by comparing distances to both neighbours.
uint16_t nearest_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto below = static_cast<uint16_t>(bits >> 16);  // toward zero
  const auto above = static_cast<uint16_t>(below + 1);
  const double to_below = std::abs(static_cast<double>(value) - value_of(below, kBf16Format));
  // One step past the largest number counts as 2^128, which is what rounding to infinity means.
  const double above_value =
      (above & 0x7fff) == 0x7f80 ? std::copysign(0x1p128, static_cast<double>(value)) : value_of(above, kBf16Format);
  const double to_above = std::abs(above_value - static_cast<double>(value));
  if (to_below != to_above) return to_below < to_above ? below : above;
  return below % 2 == 0 ? below : above;
}

TEST(Bf16, RoundsToNearestAndEven) {
  std::mt19937 engine(1);
  const auto check = [](uint32_t bits) {
    const auto value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) return;
    ASSERT_EQ(to_bf16(value).bits, nearest_bf16(value)) << bits;
  };
  // Around every value: exactly on it, next to it, half way to the next, and next to half way.
  for (uint32_t high = 0; high < 65536; ++high)
    for (const uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) check(high << 16 | low);
  for (int i = 0; i < 200'000; ++i) check(static_cast<uint32_t>(engine()));
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::infinity()).bits, 0x7f80);
  EXPECT_EQ(to_bf16(-std::numeric_limits<float>::infinity()).bits, 0xff80);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  // A NaN whose mantissa lies in the lower half only.
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::kF32), 4u);
  EXPECT_EQ(size_of(DType::kI32), 4u);
  EXPECT_EQ(size_of(DType::kBf16), 2u);
  EXPECT_EQ(size_of(DType::kF16), 2u);
  EXPECT_EQ(size_of(DType::kU8), 1u);
  EXPECT_EQ(to_string(DType::kBf16), "bf16");
  EXPECT_EQ(kDTypeOf<Bf16>, DType::kBf16);
  EXPECT_EQ(kDTypeOf<int32_t>, DType::kI32);
}

}  // namespace
}  // namespace zp
