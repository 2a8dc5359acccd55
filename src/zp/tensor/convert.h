// Element type conversion on the host, for loading weights.
#pragma once

#include <span>

#include "zp/tensor/tensor_view.h"

namespace zp {

/// Writes the elements of `source` (f32, bf16 or f16) as type `to` (f32 or bf16) to `out`, rounding to nearest even.
/// `out` has exactly the bytes needed. `source` need not be aligned (mapped files are not).
void convert_elements(const ConstTensorView& source, DType to, std::span<std::byte> out);

}  // namespace zp
