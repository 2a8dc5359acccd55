// The operations of a forward pass: one contract each, whatever the backend. ops/reference is their specification.
//
// Letters, the same everywhere: T tokens, H hidden, Q query heads, G key/value heads, D head dimension, E experts,
// k experts a token, I intermediate (of one expert or of a dense layer), V vocabulary, R rows of the output head,
// S sequences.
// Element types: A is the activation type of the Ops object, f32 or bf16 (Ops::activation_dtype()); K and V use it too.
// Residual stream, norm weights, router logits and probabilities are f32. Sums are accumulated in f32 or better.
//
// All tensors are row-major and contiguous, in device memory. Spans of metadata are host memory. Everything an
// operation is given must live, unchanged, until the act has run on the stream. Sizes of zero rows are allowed and do
// nothing. Wrong shapes or types are bugs of the caller (ZP_CHECK), never user input.
//
// Determinism (docs/architecture.md): a row of any result depends only on that row's inputs, bit for bit: not on the
// other rows, their number, its position among them, the number of threads, or which part of a prefix was cached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "zp/device/device.h"
#include "zp/ops/drawn.h"
#include "zp/tensor/tensor_view.h"

namespace zp {

/// KvExtent lengths are multiples of this many tokens (the cache's blocks are).
inline constexpr int32_t kExtentGranule = 16;

/// A weight matrix [n, k] in the backend's own layout.
struct PackedMatrix {
  Buffer buffer;
  int64_t n = 0;  ///< output features
  int64_t k = 0;  ///< input features
};

/// The sizes that an expert's packed bytes depend on.
struct ExpertSize {
  int64_t hidden = 0;        ///< H
  int64_t intermediate = 0;  ///< I
};

/// out[t] = table[ids[t]].
struct EmbedArgs {
  std::span<const int32_t> ids;  // [T], host
  ConstTensorView table;         // [V, H] A
  TensorView out;                // [T, H] f32
};

/// residual += delta (unless delta is empty); out = residual / sqrt(mean(residual^2) + eps) * weight.
struct ResidualNormArgs {
  TensorView residual;     // [T, H] f32, in and out
  ConstTensorView delta;   // [T, H] f32, or empty
  ConstTensorView weight;  // [H] f32
  float eps = 0;
  TensorView out;  // [T, H] A, or empty: only the sum is wanted
};

/// out = x * weight^T; or, if it is to be added, out += what that is in f32, with the bits of the two steps.
struct LinearArgs {
  ConstTensorView x;  // [T, k] A
  const PackedMatrix* weight = nullptr;
  TensorView out;  // [T, n] f32 or A; f32 if added to
  bool add = false;
};

/// Splits the fused projection, normalises each head of q and k (RMS over D, unless the weights are empty), rotates
/// both by position (rotate-half layout: element i pairs with i + D/2), and stores q, k, v in type A.
struct RopeArgs {
  ConstTensorView qkv;                 // [T, (Q + 2G) * D] f32 or A: q heads, k heads, v heads
  std::span<const int32_t> positions;  // [T], host
  ConstTensorView
      inverse_frequencies;  // [D / 2] f32; angle = position * inverse_frequency, in f32 as transformers has it
  ConstTensorView q_norm;   // [D] f32, or empty
  ConstTensorView k_norm;   // [D] f32, or empty
  float eps = 0;
  TensorView q;  // [T, Q, D] A
  TensorView k;  // [T, G, D] A
  TensorView v;  // [T, G, D] A
};

/// Contiguous keys and values of one layer: [tokens, G, D] A each. `tokens` is a multiple of kExtentGranule.
struct KvExtent {
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  int32_t tokens = 0;
};

/// One sequence's part of a step: rows [row, row + tokens) of q, k and v are its newest tokens, at positions
/// [context, context + tokens) where context is the sum of its extents' tokens.
struct AttentionSequence {
  int64_t row = 0;
  int32_t tokens = 0;
  std::span<const KvExtent> prefix;  // reused tokens, oldest first; may point into k and v of this very step
};

/// Causal attention with grouped heads: query head q reads kv head q / (Q / G). Token at position p sees positions
/// 0..p. The softmax is f32; its weights may be rounded to A before they multiply values.
struct AttentionArgs {
  ConstTensorView q;                             // [T, Q, D] A
  ConstTensorView k;                             // [T, G, D] A
  ConstTensorView v;                             // [T, G, D] A
  std::span<const AttentionSequence> sequences;  // [S]; their rows cover [0, T) once
  float scale = 0;                               // positive, usually 1 / sqrt(D)
  TensorView out;                                // [T, Q, D] A; may be the same memory as q
};

/// Copies `tokens` rows of this step's k and v, from `row`, to kept storage.
struct KvStore {
  int64_t row = 0;
  int32_t tokens = 0;
  std::byte* k = nullptr;
  std::byte* v = nullptr;
};
struct StoreKvArgs {
  ConstTensorView k;  // [T, G, D] A
  ConstTensorView v;  // [T, G, D] A
  std::span<const KvStore> stores;
};

/// The k experts with the largest logits, in falling order; equal logits: lower id first; NaN ranks as -infinity, so
/// ids are always valid and distinct. Weights are their probabilities in the softmax over all E, in f32; `normalize`
/// divides them by their sum (norm_topk_prob). Ranking logits, not probabilities, makes the choice independent of how a
/// backend computes exp: two logits may round to one probability.
///
/// With a table, experts are drawn instead: ids[t] = table[drawn_route(tokens[t], positions[t], N)], and weights are
/// the probabilities of those. For models of random weights, whose experts are to be used as often as is wanted of
/// them.
struct RouteArgs {
  ConstTensorView logits;  // [T, E] f32
  bool normalize = false;
  TensorView ids;                        // [T, k] i32
  TensorView weights;                    // [T, k] f32
  ConstTensorView table{};               // [N, k] i32, each row's ids distinct; or empty
  std::span<const int32_t> tokens{};     // [T], host; with a table only
  std::span<const int32_t> positions{};  // [T], host; with a table only
};

/// Told when a part of an operation has been issued, so that it can be timed apart.
class StageObserver {
 public:
  virtual ~StageObserver() = default;
  StageObserver(const StageObserver&) = delete;
  StageObserver& operator=(const StageObserver&) = delete;

  /// The acts of `stage` are those issued on `stream` since the operation began or the stage before ended.
  virtual void end_stage(Stream& stream, std::string_view stage) = 0;

 protected:
  StageObserver() = default;
};

/// out[t] = sum over j of weights[t, j] * down(silu(gate(x[t])) * up(x[t])) of expert ids[t, j], summed in the order
/// of j. The inner product silu * up is rounded to A. The experts of one token are distinct; the blob of an expert that
/// no token is routed to may be null.
///
/// If `then` has a residual, what residual_norm() does with `out` as its delta follows, with the same bits, and `out`
/// is left with anything. A backend may do both at once, so that the sum does not pass through memory.
struct MoeArgs {
  ConstTensorView x;                          // [T, H] A
  ConstTensorView ids;                        // [T, k] i32
  ConstTensorView weights;                    // [T, k] f32
  std::span<const std::byte* const> experts;  // [E] packed blobs (pack_expert)
  ExpertSize size;
  TensorView out;                     // [T, H] f32
  StageObserver* observer = nullptr;  // told of the parts, where they are several acts; or null
  ResidualNormArgs then{};            // without delta; its out may be the memory of x

  [[nodiscard]] bool norm_follows() const noexcept { return !then.residual.empty(); }
  /// `then`, as an operation of its own.
  [[nodiscard]] ResidualNormArgs norm_of_out() const {
    ResidualNormArgs norm = then;
    norm.delta = out;
    return norm;
  }
};

/// out = silu(gate) * up, for x = [gate, up] side by side.
struct SwigluArgs {
  ConstTensorView x;  // [T, 2 * I] f32 or A
  TensorView out;     // [T, I] A
};

/// out[r] = x[rows[r]].
struct GatherRowsArgs {
  ConstTensorView x;              // [T, H] f32 or A
  std::span<const int64_t> rows;  // [R], host
  TensorView out;                 // [R, H], of the type of x
};

/// out = x, rounded to the type of out.
struct ConvertArgs {
  ConstTensorView x;  // [T, H] f32 or A
  TensorView out;     // [T, H] f32 or A; not the memory of x
};

/// out[t] = sum over j of weights[t, j] * x[rows[t * k + j]], summed in the order of j: what moe() does with the
/// results of its experts, for results that were computed elsewhere.
struct CombineArgs {
  ConstTensorView x;              // [M, H] f32 or A
  std::span<const int64_t> rows;  // [T * k], host
  ConstTensorView weights;        // [T, k] f32
  TensorView out;                 // [T, H] f32
};

/// For each row: the logits of its candidates, and log(sum(exp(logits))) over the whole vocabulary: NaN if any logit
/// is, +infinity if any is (and none is NaN), -infinity if all are.
struct HeadArgs {
  ConstTensorView x;                     // [R, H] A
  const PackedMatrix* weight = nullptr;  // [V, H]
  std::span<const int64_t> offsets;      // [R + 1]: row r's candidates are candidates[offsets[r], offsets[r + 1])
  std::span<const int32_t> candidates;   // token ids, in [0, V)
  TensorView logits;                     // [offsets[R]] f32
  TensorView log_sum_exp;                // [R] f32
};

class DevicePacking;
/// out = the drawn elements, rounded to its type.
struct DrawArgs {
  DrawnMatrix matrix;
  TensorView out;  // [rows, columns] f32 or A
};

/// An expert's matrices, drawn: gate and up [I, H], down [H, I].
struct DrawnExpert {
  DrawnMatrix gate;
  DrawnMatrix up;
  DrawnMatrix down;
};

/// All operations of one backend on one device. Methods issue work on `stream`, which must be the device's own, and
/// return at once. One thread issues at a time; the packing functions are thread-safe.
class Ops {
 public:
  virtual ~Ops() = default;
  Ops(const Ops&) = delete;
  Ops& operator=(const Ops&) = delete;

  /// A: f32 or bf16.
  [[nodiscard]] virtual DType activation_dtype() const noexcept = 0;
  /// For people: "cpu bf16 (amx)".
  [[nodiscard]] virtual std::string_view description() const noexcept = 0;

  /// Packs the rows of all parts, one after another, into one matrix. Parts are [n_i, k] f32, bf16 or f16, in host
  /// memory; the packed weights have type A. Blocks.
  [[nodiscard]] virtual PackedMatrix pack_matrix(std::span<const ConstTensorView> parts) = 0;
  /// Bytes of one expert's blob, a multiple of its alignment of 256.
  [[nodiscard]] virtual size_t expert_blob_bytes(const ExpertSize& size) const = 0;
  /// Packs one expert: gate and up [I, H], down [H, I], each f32, bf16 or f16 in host memory. `blob` is host memory,
  /// 256-byte aligned, expert_blob_bytes() long; the bytes are the same on host, peer and device. Blocks.
  virtual void pack_expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
                           std::span<std::byte> blob) const = 0;
  /// What pack_matrix() makes of these matrices, drawn where they are to lie. Blocks.
  [[nodiscard]] virtual PackedMatrix draw_matrix(std::span<const DrawnMatrix> parts) = 0;

  /// Packs on the device, from stored bytes in its memory; null where the host packs (ops/device_packing.h).
  [[nodiscard]] virtual DevicePacking* device_packing() noexcept { return nullptr; }

  virtual void draw(Stream& stream, const DrawArgs& args) = 0;
  /// Fills `blob`, device memory, 256-byte aligned and expert_blob_bytes() long, with what pack_expert() makes.
  virtual void draw_expert(Stream& stream, const DrawnExpert& expert, std::byte* blob) = 0;
  virtual void embed(Stream& stream, const EmbedArgs& args) = 0;
  virtual void residual_norm(Stream& stream, const ResidualNormArgs& args) = 0;
  virtual void linear(Stream& stream, const LinearArgs& args) = 0;
  virtual void rope(Stream& stream, const RopeArgs& args) = 0;
  virtual void attention(Stream& stream, const AttentionArgs& args) = 0;
  virtual void store_kv(Stream& stream, const StoreKvArgs& args) = 0;
  virtual void route(Stream& stream, const RouteArgs& args) = 0;
  virtual void moe(Stream& stream, const MoeArgs& args) = 0;
  virtual void swiglu(Stream& stream, const SwigluArgs& args) = 0;
  virtual void gather_rows(Stream& stream, const GatherRowsArgs& args) = 0;
  virtual void convert(Stream& stream, const ConvertArgs& args) = 0;
  virtual void combine(Stream& stream, const CombineArgs& args) = 0;
  virtual void head(Stream& stream, const HeadArgs& args) = 0;

 protected:
  Ops() = default;
};

}  // namespace zp
