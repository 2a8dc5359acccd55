// Element types: names, sizes, and the 16-bit floating-point conversions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zp {

/// The element types a tensor can have.
enum class DType : uint8_t { kF32, kBf16, kF16, kI32, kU8 };

[[nodiscard]] constexpr size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kBf16:
    case DType::kF16: return 2;
    case DType::kU8: return 1;
  }
  return 0;
}

[[nodiscard]] constexpr std::string_view to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kBf16: return "bf16";
    case DType::kF16: return "f16";
    case DType::kI32: return "i32";
    case DType::kU8: return "u8";
  }
  return "unknown";
}

/// Brain floating point: the upper half of an IEEE float32.
struct Bf16 {
  uint16_t bits = 0;
};

/// IEEE 754 binary16.
struct F16 {
  uint16_t bits = 0;
};

[[nodiscard]] constexpr float to_float(float value) noexcept { return value; }
[[nodiscard]] constexpr float to_float(Bf16 value) noexcept {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
[[nodiscard]] constexpr float to_float(F16 value) noexcept {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal or zero: mantissa * 2^-24, exact in float32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

/// Rounds to nearest, ties to even; NaN stays NaN.
[[nodiscard]] constexpr Bf16 to_bf16(float value) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return Bf16{static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return Bf16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// Converts a float32 to the element type T (float or Bf16).
template <typename T>
[[nodiscard]] constexpr T from_float(float value) noexcept;
template <>
[[nodiscard]] constexpr float from_float<float>(float value) noexcept {
  return value;
}
template <>
[[nodiscard]] constexpr Bf16 from_float<Bf16>(float value) noexcept {
  return to_bf16(value);
}

/// The DType of a C++ element type.
template <typename T>
inline constexpr DType kDTypeOf = DType::kU8;
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<Bf16> = DType::kBf16;
template <>
inline constexpr DType kDTypeOf<F16> = DType::kF16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kI32;

}  // namespace zp
