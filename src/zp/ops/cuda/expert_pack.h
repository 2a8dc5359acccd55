// Packs experts on the host.
#pragma once

#include <span>

#include "zp/tensor/tensor_view.h"

namespace zp::cuda {

/// gate and up [I, H], down [H, I], of a floating type, to the bytes of ExpertLayout(H, I), padding included.
void pack_expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
                 std::span<std::byte> blob);

}  // namespace zp::cuda
