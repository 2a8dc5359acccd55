// Which of several kernels for one operation runs. The engine takes the defaults; tests take each.
#pragma once

#include <cstdint>

namespace zp::cuda {

enum class MoeChoice : uint8_t {
  kSimple,  ///< one thread an element
  kTensor,  ///< wgmma
};

enum class AttentionChoice : uint8_t {
  kSimple,  ///< mma.sync, any head dimension
  kTensor,  ///< wgmma where the head dimension is 64 or 128
};

struct Choices {
  MoeChoice moe = MoeChoice::kTensor;
  AttentionChoice attention = AttentionChoice::kTensor;
};

}  // namespace zp::cuda
