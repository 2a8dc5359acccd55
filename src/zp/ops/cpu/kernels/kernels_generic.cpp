// Kernels for any x86-64 machine.
#include "zp/ops/cpu/kernels/kernels.h"
// The order matters: each builds on those before it.
// clang-format off
#include "zp/ops/cpu/kernels/simd/generic.h"
#include "zp/ops/cpu/kernels/exp_impl.h"
#include "zp/ops/cpu/kernels/elementwise_impl.h"
#include "zp/ops/cpu/kernels/gemm_impl.h"
#include "zp/ops/cpu/kernels/attention_impl.h"
#include "zp/ops/cpu/kernels/table_impl.h"
// clang-format on

namespace zp::cpu {

const Kernels& kernels_generic() { return kTable; }

}  // namespace zp::cpu
