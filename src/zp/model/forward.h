// One forward pass over a step's tokens: the order of operations, and the memory they work in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "zp/device/device.h"
#include "zp/device/span_log.h"
#include "zp/model/kv_pool.h"
#include "zp/model/moe_runner.h"
#include "zp/model/weights.h"
#include "zp/ops/ops.h"
#include "zp/shape/model_shape.h"
#include "zp/tensor/tensor.h"

namespace zp {

/// Reused keys and values that lie side by side: kept blocks, or rows of this very step.
struct KvRun {
  enum class Place : uint8_t {
    kPool,  ///< `index` is the first of consecutive blocks in the KvPool
    kStep,  ///< `index` is the first row among this step's fresh tokens
  };
  Place place = Place::kPool;
  int64_t index = 0;
  int32_t tokens = 0;
};

/// One sequence's part of a step: rows [row, row + tokens), after the tokens of `prefix`.
struct StepSequence {
  int64_t row = 0;
  int32_t tokens = 0;
  std::vector<KvRun> prefix;
};

/// Rows of this step to be kept: `tokens` of them from `row`, in consecutive pool blocks from `block`.
struct KeepRun {
  int64_t row = 0;
  int32_t tokens = 0;
  int64_t block = 0;
};

/// What a forward pass computes. All spans and vectors must stay unchanged until run() returns.
struct ForwardStep {
  std::vector<int32_t> ids;        // [T] token ids
  std::vector<int32_t> positions;  // [T] each token's position in its sequence
  std::vector<StepSequence> sequences;
  std::vector<KeepRun> keep;
  std::vector<int64_t> head_rows;          // [R] rows whose logits are wanted
  std::vector<int64_t> candidate_offsets;  // [R + 1] into candidates
  std::vector<int32_t> candidates;         // token ids
};

/// Logits in the order of ForwardStep::candidates, and a log-sum-exp over the vocabulary per head row.
struct ForwardResult {
  std::vector<float> logits;
  std::vector<float> log_sum_exp;
  /// Of run(): when the device began and when it ended, timed.
  std::optional<Event> began = std::nullopt;
  std::optional<Event> ended = std::nullopt;
};

/// Rows [row, row + count) of a step, which are worked on in rows [at, at + count) of the chunk's buffers.
struct ChunkRows {
  int64_t row = 0;
  int64_t at = 0;
  int64_t count = 0;
};

/// Where one layer's reused keys and values lie, and where its kept ones go. Lives until the layer's acts have run.
struct LayerMetadata {
  std::vector<KvExtent> extents;             // of all sequences, one after another
  std::vector<AttentionSequence> sequences;  // spans into extents
  std::vector<KvStore> stores;
};

/// Sizes that the activations are allocated for, once.
struct ForwardLimits {
  int64_t tokens = 0;        ///< T: fresh tokens of a step
  int64_t chunk_tokens = 0;  ///< tokens that everything but attention works on at a time
  int64_t head_rows = 0;     ///< rows of the output head at a time
  int64_t candidates = 0;    ///< candidates at a time; the most that one head row may have
};

/// Runs steps of one rank: whole, or in pieces for ranks that do a pass together (parallel/), which move activations
/// between the pieces. Owned and called by the rank's thread alone.
class Forward final {
 public:
  /// What a Forward borrows; all of it outlives the Forward.
  struct Parts {
    Device& device;
    Ops& ops;
    const ModelShape& shape;
    const ModelWeights& weights;
    MoeRunner& experts;
    const KvPool& kv_pool;
    SpanLog* spans = nullptr;  ///< null: no trace is wanted
  };
  Forward(const Parts& parts, const ForwardLimits& limits);
  ~Forward();

  /// Issues the pass on `stream` and waits for it. Throws what a device act threw.
  [[nodiscard]] ForwardResult run(Stream& stream, const ForwardStep& step);

  /// Bytes of activations that a Forward allocates.
  [[nodiscard]] static size_t activation_bytes(const ModelShape& shape, DType activation, const ForwardLimits& limits);

  // The pieces of run(), in its order. Each issues acts on `stream` and returns; `step` and the metadata live until
  // these have run.

  /// What the pieces leave for each other. Chunk buffers have chunk_tokens rows.
  struct Buffers {
    TensorView residual;        // [T, H] f32, of the whole step
    TensorView normed;          // [C, H] A
    TensorView delta;           // [C, H] f32: what a half-layer adds to the residual
    TensorView expert_ids;      // [C, k] i32
    TensorView expert_weights;  // [C, k] f32
  };
  [[nodiscard]] Buffers buffers() const;
  /// Of every layer.
  [[nodiscard]] std::vector<LayerMetadata> metadata_of(const ForwardStep& step) const;
  /// The residual of all rows, from their ids.
  void embed(Stream& stream, const ForwardStep& step);
  /// All layers, from the residual before the first to the residual after the last.
  void run_layers(Stream& stream, const ForwardStep& step, std::span<const LayerMetadata> metadata);
  /// The weights that begin a layer's halves; past the last layer there is none (null).
  [[nodiscard]] const Tensor* attention_norm(int32_t layer) const;
  [[nodiscard]] const Tensor* feed_forward_norm(int32_t layer) const;
  /// Adds delta to the residual if `add_delta`; then norms into normed, unless `weight` is null.
  void norm(Stream& stream, const Tensor* weight, const ChunkRows& rows, bool add_delta);
  /// The layer's q, k and v of these rows, from normed.
  void project(Stream& stream, const ForwardStep& step, int32_t layer, const ChunkRows& rows);
  /// Keeps what is to be kept, and attends over whole sequences.
  void attend(Stream& stream, const ForwardStep& step, const LayerMetadata& metadata);
  /// Where attention_out() leaves its result.
  enum class Into : uint8_t {
    kDelta,     ///< delta = the result: others' parts of it may be added
    kResidual,  ///< residual += the result, which saves a way through memory
  };
  /// The projected result of attention.
  void attention_out(Stream& stream, int32_t layer, const ChunkRows& rows, Into into);
  /// expert_ids and expert_weights, from normed.
  void route(Stream& stream, const ForwardStep& step, int32_t layer, const ChunkRows& rows);
  /// delta = the experts' or the dense layer's result, from normed.
  void run_experts(Stream& stream, const ChunkRows& rows, std::span<const std::byte* const> experts);
  void run_dense(Stream& stream, int32_t layer, const ChunkRows& rows);
  /// Logits of the step's head rows. Waits for the stream.
  void output_head(Stream& stream, const ForwardStep& step, ForwardResult& result);

 private:
  struct Activations;
  struct RowRange {
    int64_t begin = 0;
    int64_t count = 0;
  };

  void feed_forward(Stream& stream, const ForwardStep& step, int32_t layer);
  [[nodiscard]] MoeRows moe_rows(const ChunkRows& rows) const;
  /// The norm of these rows of the residual into normed, adding nothing; without a weight, no norm.
  [[nodiscard]] ResidualNormArgs norm_args(const Tensor* weight, const ChunkRows& rows) const;
  void head_part(Stream& stream, const ForwardStep& step, RowRange rows, std::span<const int64_t> offsets);
  [[nodiscard]] LayerMetadata layer_metadata(const ForwardStep& step, int32_t layer) const;
  /// For traces: a point in the work, and a span that began at one and ends here. Nothing unless a trace is wanted.
  [[nodiscard]] std::optional<Event> mark(Stream& stream) const;
  void end_span(Stream& stream, const std::optional<Event>& begin, std::string_view name, int32_t layer);

  Parts parts_;
  ForwardLimits limits_;
  std::unique_ptr<Activations> activations_;
};

}  // namespace zp
