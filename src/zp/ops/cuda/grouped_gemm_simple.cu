// The grouped products with one thread an output element: slow, any size, and what the fast kernel is compared with.
#include "zp/ops/cuda/device_math.cuh"
#include "zp/ops/cuda/expert_layout.h"
#include "zp/ops/cuda/moe_kernels.h"

namespace zp::cuda {
namespace {

constexpr int32_t kThreads = 256;

// x of a row times one row of the weight tiles that begin at `tiles`.
__device__ float dot(const __nv_bfloat16* x, int64_t k, const std::byte* tiles, int64_t row) {
  float sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    const std::byte* chunk =
        tiles + i / kTileK * static_cast<int64_t>(kTileBytes) + chunk_offset(row, i % kTileK / kChunkElements);
    const auto weight = reinterpret_cast<const __nv_bfloat16*>(chunk)[i % kChunkElements];
    sum += __bfloat162float(x[i]) * __bfloat162float(weight);
  }
  return sum;
}

__global__ void grouped_gemm_simple_kernel(GroupedGemmParams p) {
  const int64_t slot = blockIdx.x;
  const int64_t column = blockIdx.y * int64_t{kThreads} + threadIdx.x;
  if (column >= p.out_stride || slot >= p.offsets[p.expert_count]) return;
  __nv_bfloat16* out = as_bf16(p.out) + slot * p.out_stride + column;
  if (column >= p.out_columns) {
    if (p.gate_up) *out = __float2bfloat16_rn(0.0f);
    return;
  }
  const int32_t expert = find_range(p.offsets, p.expert_count, static_cast<int32_t>(slot));
  const __nv_bfloat16* x = as_bf16(p.x) + (p.rows == nullptr ? slot : p.rows[slot]) * p.x_stride;
  const int64_t features = p.gate_up ? kGateUpFeatures : kTileN;
  const std::byte* tiles = p.experts[expert] + p.weight_offset + column / features * p.k_tiles * kTileBytes;
  const int64_t f = column % features;
  if (p.gate_up)
    *out = __float2bfloat16_rn(silu(dot(x, p.k, tiles, gate_row(f))) * dot(x, p.k, tiles, up_row(f)));
  else
    *out = __float2bfloat16_rn(dot(x, p.k, tiles, down_row(f)));
}

}  // namespace

void launch_grouped_gemm_simple(const GroupedGemmParams& params, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(params.slots),
                  static_cast<unsigned>((params.out_stride + kThreads - 1) / kThreads));
  grouped_gemm_simple_kernel<<<grid, kThreads, 0, stream>>>(params);
}

}  // namespace zp::cuda
