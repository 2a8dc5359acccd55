// Kernels compiled for avx512; called only on machines that have it.
#include "zp/ops/cpu/kernels/kernels.h"
// The order matters: each builds on those before it.
// clang-format off
#include "zp/ops/cpu/kernels/simd/avx512.h"
#include "zp/ops/cpu/kernels/exp_impl.h"
#include "zp/ops/cpu/kernels/elementwise_impl.h"
#include "zp/ops/cpu/kernels/gemm_impl.h"
#include "zp/ops/cpu/kernels/attention_impl.h"
#include "zp/ops/cpu/kernels/table_impl.h"
// clang-format on

namespace zp::cpu {

const Kernels& kernels_avx512() { return kTable; }

}  // namespace zp::cpu
