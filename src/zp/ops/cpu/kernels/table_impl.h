// The table of the including file's instruction set.
#pragma once

namespace zp::cpu {
// NOLINTBEGIN(misc-definitions-in-headers): one source file an instruction set includes this, each for itself.
namespace {

constexpr Kernels kTable = {
    .gemm_f32 = gemm_kernels<float>(),
    .gemm_bf16 = gemm_kernels<uint16_t>(),
    .attention_f32 = attention_kernels<float>(),
    .attention_bf16 = attention_kernels<uint16_t>(),
    .rotate_head = rotate_head,
    .store_product = store_product,
    .silu_product = silu_product,
    .convert = convert,
    .add = add_rows,
    .add_scaled = add_scaled,
    .sum_of_squares = sum_of_squares,
    .scale = scale_row,
    .silu_times = silu_times_rows,
    .largest = largest,
    .sum_exp = sum_exp,
};

}  // namespace
// NOLINTEND(misc-definitions-in-headers)
}  // namespace zp::cpu
