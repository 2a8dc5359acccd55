// The innermost loops, one table for each instruction set. Every loop treats each row alone and in one order of
// operations, so that a row's bits depend neither on its neighbours nor on how rows are blocked.
#pragma once

#include <cstdint>

#include "zp/ops/cpu/cpu_features.h"
#include "zp/tensor/dtype.h"

namespace zp::cpu {

/// Columns of a panel, the unit of packed weights.
inline constexpr int64_t kPanelColumns = 32;
/// Tokens of a key/value tile of attention. Tiles begin at multiples of this many tokens of a sequence.
inline constexpr int64_t kTileTokens = 64;

/// Elements of A, float or bf16, at `data`.
struct Elements {
  void* data = nullptr;
  DType dtype = DType::kF32;
};
struct ConstElements {
  const void* data = nullptr;
  DType dtype = DType::kF32;
};

/// c[r, 0..32) = a[r] * panel, for r < rows; c has `rows` rounded up to row_tile rows, the rest undefined. The panel
/// after this one in memory is fetched into the cache meanwhile.
struct PanelProduct {
  const void* rows_packed = nullptr;  // from pack_rows
  int64_t rows = 0;
  const void* panel = nullptr;  // [k, 32] packed weights (weights.h)
  int64_t k = 0;                // padded
  float* c = nullptr;           // [round_up(rows, row_tile), 32]
};

/// Matrix products of one type of rows and weights.
struct GemmKernels {
  int64_t row_tile;  ///< Rows are packed in tiles of this many.
  /// Bytes of a packed tile of rows of k_padded elements.
  int64_t (*tile_bytes)(int64_t k_padded);
  /// Packs rows of k elements of A, each padded with zeros to k_padded, into whole tiles.
  void (*pack_rows)(const std::byte* const* rows, int64_t row_count, int64_t k, int64_t k_padded, void* packed);
  /// Must be called, by the thread that multiplies, before and after any number of calls of multiply.
  void (*begin)();
  void (*end)();
  void (*multiply)(const PanelProduct& product);
};

/// Where the first `columns` of a product's 32 go: row r to out[r * out_stride].
struct ProductOut {
  const float* product = nullptr;  // [rows, 32]
  int64_t rows = 0;
  int64_t columns = 0;
  Elements out;
  int64_t out_stride = 0;  // in elements
};

/// A strip of query rows, packed: one row a lane.
struct QueryStrip {
  const std::byte* const* rows = nullptr;  // [strip], D elements of A each; null for a lane without a row
  int64_t head_dim = 0;
  float scale = 0;
  void* packed = nullptr;
};

/// Keys and values of up to 64 tokens of one kv head, packed.
struct KeyValueTile {
  const std::byte* const* k = nullptr;  // [tokens], D elements of A each
  const std::byte* const* v = nullptr;  // [tokens]
  int64_t tokens = 0;
  int64_t head_dim = 0;
  void* packed = nullptr;
};

/// One tile against one strip. Element d of the output of lane r is at out[d * strip + r].
struct AttentionTile {
  const void* queries = nullptr;      // from pack_queries
  const void* keys_values = nullptr;  // from pack_tile
  float scale = 0;
  float* out = nullptr;            // [round_up(D, 32), strip], weighted sum so far
  float* top = nullptr;            // [strip], largest score so far
  float* sum = nullptr;            // [strip], sum of exp(score - top) so far
  const float* visible = nullptr;  // [strip], tokens of this tile that each lane sees; may be zero or less
  float* scores = nullptr;         // [64, strip], scratch
  int64_t head_dim = 0;
  int64_t tokens = 0;       // most that any lane sees, 1..64
  int64_t full_tokens = 0;  // fewest that any row sees, 0..64
};

/// Attention over one type of keys and values. A lane's results depend on its own query and on the tokens it sees, not
/// on other lanes, provided that all lanes see their last tokens in the same tile.
struct AttentionKernels {
  int64_t strip;  ///< lanes: query rows side by side
  /// Bytes of a packed strip and of a packed tile.
  int64_t (*strip_bytes)(int64_t head_dim);
  int64_t (*tile_bytes)(int64_t head_dim);
  void (*pack_queries)(const QueryStrip& strip);
  void (*pack_tile)(const KeyValueTile& tile);
  /// Must be called, by the thread that runs tiles, before and after any number of them.
  void (*begin)();
  void (*end)();
  void (*run_tile)(const AttentionTile& tile);
};

struct RotateHead {
  const float* head = nullptr;    // [D]
  const float* cosine = nullptr;  // [D / 2]
  const float* sine = nullptr;    // [D / 2]
  const float* weight = nullptr;  // [D] of the RMS norm, or null
  float eps = 0;
  int64_t head_dim = 0;
  Elements out;  // [D]
};

struct Kernels {
  GemmKernels gemm_f32;
  GemmKernels gemm_bf16;

  AttentionKernels attention_f32;
  AttentionKernels attention_bf16;
  void (*rotate_head)(const RotateHead& args);

  /// Rounds a product to the type of `out`.
  void (*store_product)(const ProductOut& product);
  /// out[i] = silu(gate[i]) * up[i], where up lies 16 columns after gate; `columns` <= 16 of the result.
  void (*silu_product)(const ProductOut& product);

  /// to[i] = from[i], rounded to the type of `to`.
  void (*convert)(ConstElements from, Elements to, int64_t count);
  /// a[i] += b[i]
  void (*add)(float* a, const float* b, int64_t count);
  /// a[i] += scale * b[i]
  void (*add_scaled)(float* a, const float* b, float scale, int64_t count);
  float (*sum_of_squares)(const float* a, int64_t count);
  /// out[i] = a[i] * scale * weight[i]
  void (*scale)(const float* a, float scale, const float* weight, Elements out, int64_t count);
  /// out[i] = silu(gate[i]) * up[i]
  void (*silu_times)(ConstElements gate, ConstElements up, Elements out, int64_t count);
  float (*largest)(const float* a, int64_t count);
  /// sum of exp(a[i] - top)
  float (*sum_exp)(const float* a, float top, int64_t count);
};

/// The table of an instruction set that this machine has.
[[nodiscard]] const Kernels& kernels_of(Isa isa);

/// The tables themselves, one in each source file.
[[nodiscard]] const Kernels& kernels_generic();
[[nodiscard]] const Kernels& kernels_avx2();
[[nodiscard]] const Kernels& kernels_avx512();
[[nodiscard]] const Kernels& kernels_amx();
/// bf16 products and attention on AMX tiles.
[[nodiscard]] GemmKernels gemm_kernels_amx();
[[nodiscard]] AttentionKernels attention_kernels_amx();

}  // namespace zp::cpu
