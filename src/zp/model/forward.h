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
#include "zp/model/expert_source.h"
#include "zp/model/kv_pool.h"
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
};

/// Sizes that the activations are allocated for, once.
struct ForwardLimits {
  int64_t tokens = 0;        ///< T: fresh tokens of a step
  int64_t chunk_tokens = 0;  ///< tokens that everything but attention works on at a time
  int64_t head_rows = 0;     ///< rows of the output head at a time
  int64_t candidates = 0;    ///< candidates at a time; the most that one head row may have
};

/// Runs steps of one rank. Owned and called by the rank's thread alone.
class Forward final {
 public:
  /// What a Forward borrows; all of it outlives the Forward.
  struct Parts {
    Device& device;
    Ops& ops;
    const ModelShape& shape;
    const ModelWeights& weights;
    ExpertSource& experts;
    const KvPool& kv_pool;
    SpanLog* spans = nullptr;  ///< null: no trace is wanted
  };
  Forward(const Parts& parts, const ForwardLimits& limits);
  ~Forward();

  /// Issues the pass on `stream` and waits for it. Throws what a device act threw.
  [[nodiscard]] ForwardResult run(Stream& stream, const ForwardStep& step);

  /// Bytes of activations that a Forward allocates.
  [[nodiscard]] static size_t activation_bytes(const ModelShape& shape, DType activation, const ForwardLimits& limits);

 private:
  struct Activations;
  struct LayerMetadata;
  struct RowRange {
    int64_t begin = 0;
    int64_t count = 0;
  };

  void issue(Stream& stream, const ForwardStep& step, std::vector<LayerMetadata>& metadata, ForwardResult& result);
  void embed(Stream& stream, const ForwardStep& step);
  void project(Stream& stream, const ForwardStep& step, int32_t layer, int64_t begin, int64_t count, bool add_delta);
  void attend(Stream& stream, const ForwardStep& step, int32_t layer, const LayerMetadata& metadata);
  void feed_forward(Stream& stream, const ForwardStep& step, int32_t layer);
  void mix(Stream& stream, int32_t layer, int64_t begin, int64_t count);
  void run_dense(Stream& stream, int32_t layer, int64_t count);
  void route(Stream& stream, int32_t layer, int64_t count);
  void run_experts(Stream& stream, int64_t count, std::span<const std::byte* const> experts);
  void output_head(Stream& stream, const ForwardStep& step, ForwardResult& result);
  void head_part(Stream& stream, const ForwardStep& step, RowRange rows, std::span<const int64_t> offsets);
  [[nodiscard]] LayerMetadata metadata_of(const ForwardStep& step, int32_t layer) const;
  /// For traces: a point in the work, and a span that began at one and ends here. Nothing unless a trace is wanted.
  [[nodiscard]] std::optional<Event> mark(Stream& stream) const;
  void end_span(Stream& stream, const std::optional<Event>& begin, std::string_view name, int32_t layer);

  Parts parts_;
  ForwardLimits limits_;
  std::unique_ptr<Activations> activations_;
};

}  // namespace zp
