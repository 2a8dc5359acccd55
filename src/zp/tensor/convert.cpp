// Converts between f32, bf16 and f16.
#include "zp/tensor/convert.h"

#include <cstring>

namespace zp {
namespace {

template <typename From, typename To>
void convert(const std::byte* source, int64_t count, std::byte* out) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, source + static_cast<size_t>(i) * sizeof(From), sizeof(From));
    const To converted = from_float<To>(to_float(value));
    std::memcpy(out + static_cast<size_t>(i) * sizeof(To), &converted, sizeof(To));
  }
}

template <typename To>
void convert_to(const ConstTensorView& source, std::byte* out) {
  switch (source.dtype()) {
    case DType::kF32: return convert<float, To>(source.data(), source.elements(), out);
    case DType::kBf16: return convert<Bf16, To>(source.data(), source.elements(), out);
    case DType::kF16: return convert<F16, To>(source.data(), source.elements(), out);
    case DType::kI32:
    case DType::kU8: break;
  }
  ZP_CHECK(false, "cannot convert from {}", to_string(source.dtype()));
}

}  // namespace

void convert_elements(const ConstTensorView& source, DType to, std::span<std::byte> out) {
  const size_t bytes = static_cast<size_t>(source.elements()) * size_of(to);
  ZP_CHECK(out.size() == bytes, "{} bytes given for {} elements of {}", out.size(), source.elements(), to_string(to));
  if (source.dtype() == to) {
    if (bytes != 0) std::memcpy(out.data(), source.data(), bytes);
    return;
  }
  ZP_CHECK(to == DType::kF32 || to == DType::kBf16, "cannot convert to {}", to_string(to));
  if (to == DType::kF32) return convert_to<float>(source, out.data());
  convert_to<Bf16>(source, out.data());
}

}  // namespace zp
