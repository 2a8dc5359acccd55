// Kernels for any x86-64 machine.
#include "zp/ops/cpu/kernels/kernels.h"
// The order matters: each builds on those before it.
// clang-format off
#include "zp/ops/cpu/kernels/simd/generic.h"
#include "zp/ops/cpu/kernels/elementwise.inc"
#include "zp/ops/cpu/kernels/gemm.inc"
#include "zp/ops/cpu/kernels/attention.inc"
#include "zp/ops/cpu/kernels/table.inc"
// clang-format on

namespace zp::cpu {

const Kernels& kernels_generic() { return kTable; }

}  // namespace zp::cpu
