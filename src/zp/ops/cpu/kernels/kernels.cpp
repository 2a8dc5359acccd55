// Chooses a table.
#include "zp/ops/cpu/kernels/kernels.h"

namespace zp::cpu {

const Kernels& kernels_amx() {
  // AMX multiplies matrices; the rest is AVX-512.
  static const Kernels table = [] {
    Kernels kernels = kernels_avx512();
    kernels.gemm_bf16 = gemm_kernels_amx();
    kernels.attention_bf16 = attention_kernels_amx();
    return kernels;
  }();
  return table;
}

const Kernels& kernels_of(Isa isa) {
  switch (isa) {
    case Isa::kGeneric: return kernels_generic();
    case Isa::kAvx2: return kernels_avx2();
    case Isa::kAvx512: return kernels_avx512();
    case Isa::kAmx: return kernels_amx();
  }
  return kernels_generic();
}

}  // namespace zp::cpu
