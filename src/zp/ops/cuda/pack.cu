// Packs weights as expert_pack.cpp and convert_elements() do on the host, to the same bits. Bound by memory: a thread
// makes 16 bytes of the result.
#include <cuda_runtime.h>

#include "zp/ops/cuda/expert_layout.h"
#include "zp/ops/cuda/pack_kernels.h"

namespace zp::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocksMax = 132 * 16;

unsigned blocks_for(int64_t threads) {
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax);
}

// Eight elements of a row from `column` on as bf16; zeros beyond the row. Values are only moved if they are bf16, so
// that every bit of a NaN stays.
template <typename From>
__device__ uint4 eight_as_bf16(const From* row, int64_t column, int64_t columns) {
  uint16_t made[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (column + i >= columns) {
      made[i] = 0;
    } else if constexpr (kDTypeOf<From> == DType::kBf16) {
      made[i] = row[column + i].bits;
    } else {
      made[i] = to_bf16(to_float(row[column + i])).bits;
    }
  }
  uint4 packed;
  packed.x = made[0] | static_cast<uint32_t>(made[1]) << 16;
  packed.y = made[2] | static_cast<uint32_t>(made[3]) << 16;
  packed.z = made[4] | static_cast<uint32_t>(made[5]) << 16;
  packed.w = made[6] | static_cast<uint32_t>(made[7]) << 16;
  return packed;
}

template <>
__device__ uint4 eight_as_bf16<Bf16>(const Bf16* row, int64_t column, int64_t columns) {
  const Bf16* from = row + column;
  if (column + 8 <= columns && reinterpret_cast<uintptr_t>(from) % 16 == 0)
    return *reinterpret_cast<const uint4*>(from);
  uint16_t made[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) made[i] = column + i < columns ? from[i].bits : 0;
  uint4 packed;
  packed.x = made[0] | static_cast<uint32_t>(made[1]) << 16;
  packed.y = made[2] | static_cast<uint32_t>(made[3]) << 16;
  packed.z = made[4] | static_cast<uint32_t>(made[5]) << 16;
  packed.w = made[6] | static_cast<uint32_t>(made[7]) << 16;
  return packed;
}

template <typename From>
__global__ void pack_expert_rows_kernel(PackExpertRowsParams params) {
  constexpr int64_t kChunks = kTileK / kChunkElements;
  const int64_t row_chunks = params.k_tiles * kChunks;
  const int64_t count = params.rows.rows * row_chunks;
  const auto* data = reinterpret_cast<const From*>(params.rows.data);
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t r = i / row_chunks;
    const int64_t chunk = i % row_chunks;
    const int64_t feature = params.first + r;
    const int64_t tile_features = params.row_order == kDownOrder ? kTileN : kGateUpFeatures;
    const int64_t f = feature % tile_features;
    const int64_t tile_row = params.row_order == kDownOrder ? down_row(f)
                             : params.row_order == kUpOrder ? up_row(f)
                                                            : gate_row(f);
    std::byte* tile = params.tiles + (feature / tile_features * params.k_tiles + chunk / kChunks) * kTileBytes;
    *reinterpret_cast<uint4*>(tile + chunk_offset(tile_row, chunk % kChunks)) =
        eight_as_bf16(data + r * params.rows.stride, chunk * kChunkElements, params.rows.columns);
  }
}

template <typename From>
__global__ void convert_rows_to_bf16_kernel(ConvertRowsParams params) {
  const int64_t row_chunks = (params.rows.columns + 7) / 8;
  const int64_t count = params.rows.rows * row_chunks;
  const auto* data = reinterpret_cast<const From*>(params.rows.data);
  auto* out = static_cast<Bf16*>(params.out);
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t r = i / row_chunks;
    const int64_t column = i % row_chunks * 8;
    const uint4 packed = eight_as_bf16(data + r * params.rows.stride, column, params.rows.columns);
    Bf16* to = out + r * params.rows.columns + column;
    if (column + 8 <= params.rows.columns && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
      *reinterpret_cast<uint4*>(to) = packed;
      continue;
    }
    const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (column + e < params.rows.columns) to[e].bits = static_cast<uint16_t>(words[e / 2] >> (e % 2 * 16));
  }
}

template <typename From>
__global__ void convert_rows_to_f32_kernel(ConvertRowsParams params) {
  const int64_t count = params.rows.rows * params.rows.columns;
  const auto* data = reinterpret_cast<const From*>(params.rows.data);
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x)
    static_cast<float*>(params.out)[i] =
        to_float(data[i / params.rows.columns * params.rows.stride + i % params.rows.columns]);
}

template <typename From>
void convert_rows(const ConvertRowsParams& params, cudaStream_t stream) {
  if (params.out_is_f32)
    convert_rows_to_f32_kernel<From>
        <<<blocks_for(params.rows.rows * params.rows.columns), kThreads, 0, stream>>>(params);
  else
    convert_rows_to_bf16_kernel<From>
        <<<blocks_for(params.rows.rows * ((params.rows.columns + 7) / 8)), kThreads, 0, stream>>>(params);
}

template <typename From>
void pack_expert_rows(const PackExpertRowsParams& params, cudaStream_t stream) {
  const int64_t chunks = params.rows.rows * params.k_tiles * (kTileK / kChunkElements);
  pack_expert_rows_kernel<From><<<blocks_for(chunks), kThreads, 0, stream>>>(params);
}

}  // namespace

void launch_convert_rows(const ConvertRowsParams& params, cudaStream_t stream) {
  if (params.rows.dtype == DType::kBf16) convert_rows<Bf16>(params, stream);
  if (params.rows.dtype == DType::kF16) convert_rows<F16>(params, stream);
  if (params.rows.dtype == DType::kF32) convert_rows<float>(params, stream);
}

void launch_pack_expert_rows(const PackExpertRowsParams& params, cudaStream_t stream) {
  if (params.rows.dtype == DType::kBf16) pack_expert_rows<Bf16>(params, stream);
  if (params.rows.dtype == DType::kF16) pack_expert_rows<F16>(params, stream);
  if (params.rows.dtype == DType::kF32) pack_expert_rows<float>(params, stream);
}

}  // namespace zp::cuda
