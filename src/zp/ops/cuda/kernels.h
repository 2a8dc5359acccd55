// The kernels' launchers: each issues its kernels on `stream` and returns; the caller checks for errors. Pointers are
// to device memory, rows are contiguous, letters are those of ops.h. No kernel depends on another row of its input.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "zp/ops/drawn.h"

namespace zp::cuda {

/// The bits of a bf16, for code that only passes pointers on.
struct Bits16 {
  uint16_t bits;
};

/// Copies host memory that the device can read; for metadata, which then needs no copy engine.
void launch_upload(void* to, const void* from, size_t size_bytes, cudaStream_t stream);

struct DrawParams {
  DrawnMatrix matrix;
  void* out;  // [rows, columns] bf16 or f32
  bool out_is_f32;
};
void launch_draw(const DrawParams& params, cudaStream_t stream);

struct DrawExpertParams {
  DrawnMatrix gate;  // [I, H]
  DrawnMatrix up;    // [I, H]
  DrawnMatrix down;  // [H, I]
  std::byte* blob;   // as expert_layout.h has it; what lies beyond a matrix becomes zero
};
void launch_draw_expert(const DrawExpertParams& params, cudaStream_t stream);

struct EmbedParams {
  const int32_t* ids;   // [T]
  const Bits16* table;  // [V, H]
  float* out;           // [T, H]
  int64_t tokens;
  int64_t hidden;
};
void launch_embed(const EmbedParams& params, cudaStream_t stream);

struct ResidualNormParams {
  float* residual;      // [T, H]
  const float* delta;   // [T, H], or null
  const float* weight;  // [H]
  Bits16* out;          // [T, H], or null
  int64_t tokens;
  int64_t hidden;
  float eps;
};
void launch_residual_norm(const ResidualNormParams& params, cudaStream_t stream);

struct SwigluParams {
  const void* x;  // [T, 2 * width] f32 or bf16
  bool x_is_f32;
  Bits16* out;  // [T, width]
  int64_t tokens;
  int64_t width;
};
void launch_swiglu(const SwigluParams& params, cudaStream_t stream);

struct GatherRowsParams {
  const void* x;        // [T, H] f32 or bf16
  const int64_t* rows;  // [R]
  void* out;            // [R, H], of the type of x
  bool is_f32;
  int64_t count;
  int64_t hidden;
};
void launch_gather_rows(const GatherRowsParams& params, cudaStream_t stream);

struct ConvertParams {
  const void* x;  // [count] f32 or bf16
  void* out;      // [count] f32 or bf16
  bool x_is_f32;
  bool out_is_f32;
  int64_t count;
};
void launch_convert(const ConvertParams& params, cudaStream_t stream);

struct CombineParams {
  const void* x;         // [M, H] f32 or bf16
  const int64_t* rows;   // [T * k]
  const float* weights;  // [T, k]
  float* out;            // [T, H]
  bool x_is_f32;
  int64_t tokens;
  int64_t k;
  int64_t hidden;
};
void launch_combine(const CombineParams& params, cudaStream_t stream);

/// One thread an output element: for shapes that cuBLASLt does not take.
struct SimpleLinearParams {
  const Bits16* x;       // [T, k]
  const Bits16* weight;  // [n, k]
  void* out;             // [T, n] f32 or bf16
  bool out_is_f32;
  bool add;  // to what `out`, f32, has
  int64_t tokens;
  int64_t n;
  int64_t k;
};
void launch_simple_linear(const SimpleLinearParams& params, cudaStream_t stream);

struct RopeParams {
  const void* qkv;  // [T, (Q + 2G) * D] f32 or bf16
  bool qkv_is_f32;
  const int32_t* positions;          // [T]
  const float* inverse_frequencies;  // [D / 2]
  const float* q_norm;               // [D], or null
  const float* k_norm;               // [D], or null
  Bits16* q;                         // [T, Q, D]
  Bits16* k;                         // [T, G, D]
  Bits16* v;                         // [T, G, D]
  int64_t tokens;
  int32_t q_heads;
  int32_t kv_heads;
  int32_t head_dim;  // a multiple of 4, at most 256
  float eps;
};
void launch_rope(const RopeParams& params, cudaStream_t stream);

struct KvStoreEntry {
  int64_t row;
  int64_t tokens;
  std::byte* k;
  std::byte* v;
};
struct StoreKvParams {
  const std::byte* k;          // [T, G, D]
  const std::byte* v;          // [T, G, D]
  const KvStoreEntry* stores;  // [count]
  int64_t count;
  int64_t row_bytes;  // a multiple of 16
};
void launch_store_kv(const StoreKvParams& params, cudaStream_t stream);

struct RouteParams {
  const float* logits;  // [T, E]
  int32_t* ids;         // [T, k]
  float* weights;       // [T, k]
  int64_t tokens;
  int32_t experts;  // at most kExpertsMax
  int32_t chosen;   // at most kChosenMax
  bool normalize;
  const int32_t* table;      // [N, k], or null: experts are ranked
  int64_t table_rows;        // N
  const int32_t* token_ids;  // [T], with a table
  const int32_t* positions;  // [T], with a table
};
inline constexpr int32_t kExpertsMax = 1024;
inline constexpr int32_t kChosenMax = 32;
void launch_route(const RouteParams& params, cudaStream_t stream);

/// Folds a slice of the vocabulary's logits into each row's running maximum and sum; the last slice gives the result.
struct HeadReduceParams {
  const float* logits;  // [R, width]
  int64_t rows;
  int64_t width;
  float* maxima;       // [R] state
  double* sums;        // [R] state
  int32_t* nans;       // [R] state: whether there was one
  float* log_sum_exp;  // [R]
  bool first;
  bool last;
};
void launch_head_reduce(const HeadReduceParams& params, cudaStream_t stream);

struct HeadCandidate {
  int32_t row;
  int32_t id;
};
struct HeadPickParams {
  const float* slice;               // [R, width]: logits of ids [begin, begin + width)
  const HeadCandidate* candidates;  // [count]
  float* logits;                    // [count]
  int64_t count;
  int64_t begin;
  int64_t width;
};
void launch_head_pick(const HeadPickParams& params, cudaStream_t stream);

}  // namespace zp::cuda
