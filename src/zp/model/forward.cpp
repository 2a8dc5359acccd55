// The forward pass of a decoder with grouped-query attention and dense or mixture-of-experts layers.
// Source of the order of operations: transformers' modeling_qwen3_moe.py.
#include "zp/model/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "zp/base/check.h"
#include "zp/base/math.h"

namespace zp {

// Letters as in ops.h; T is limits.tokens, C is limits.chunk_tokens, R is limits.head_rows.
struct Forward::Activations {
  Tensor residual;        // [T, H] f32
  Tensor q;               // [T, Q, D] A; attention writes its result over it
  Tensor k;               // [T, G, D] A
  Tensor v;               // [T, G, D] A
  Tensor normed;          // [C, H] A
  Tensor qkv;             // [C, (Q + 2G) * D] A
  Tensor delta;           // [C, H] f32: what a half-layer adds to the residual
  Tensor router;          // [C, E] f32
  Tensor expert_ids;      // [C, k] i32
  Tensor expert_weights;  // [C, k] f32
  Tensor gate_up;         // [C, 2 * I] f32, dense layers
  Tensor inner;           // [C, I] A, dense layers
  Tensor head_residual;   // [R, H] f32
  Tensor head_normed;     // [R, H] A
  Tensor logits;          // [candidates] f32
  Tensor log_sum_exp;     // [R] f32

  // Calls `make(tensor, dtype, shape)` for each activation, so that planning and allocating cannot differ.
  template <typename Make>
  static void for_each(Activations& a, const ModelShape& m, DType type, const ForwardLimits& n, Make&& make) {
    const bool moe = m.moe_layers() > 0;
    const bool dense = m.moe_layers() < m.layers;
    const int64_t heads = int64_t{m.query_heads} + 2 * m.kv_heads;
    make(a.residual, DType::kF32, Shape{n.tokens, m.hidden});
    make(a.q, type, Shape{n.tokens, m.query_heads, m.head_dim});
    make(a.k, type, Shape{n.tokens, m.kv_heads, m.head_dim});
    make(a.v, type, Shape{n.tokens, m.kv_heads, m.head_dim});
    make(a.normed, type, Shape{n.chunk_tokens, m.hidden});
    make(a.qkv, type, Shape{n.chunk_tokens, heads * m.head_dim});
    make(a.delta, DType::kF32, Shape{n.chunk_tokens, m.hidden});
    make(a.router, DType::kF32, Shape{n.chunk_tokens, moe ? m.experts : 0});
    make(a.expert_ids, DType::kI32, Shape{n.chunk_tokens, moe ? m.experts_per_token : 0});
    make(a.expert_weights, DType::kF32, Shape{n.chunk_tokens, moe ? m.experts_per_token : 0});
    make(a.gate_up, DType::kF32, Shape{n.chunk_tokens, dense ? 2 * int64_t{m.dense_intermediate} : 0});
    make(a.inner, type, Shape{n.chunk_tokens, dense ? m.dense_intermediate : 0});
    make(a.head_residual, DType::kF32, Shape{n.head_rows, m.hidden});
    make(a.head_normed, type, Shape{n.head_rows, m.hidden});
    make(a.logits, DType::kF32, Shape{n.candidates});
    make(a.log_sum_exp, DType::kF32, Shape{n.head_rows});
  }
};

Forward::Forward(const Parts& parts, const ForwardLimits& limits)
    : parts_(parts), limits_(limits), activations_(std::make_unique<Activations>()) {
  ZP_CHECK(limits.tokens > 0 && limits.chunk_tokens > 0 && limits.head_rows > 0 && limits.candidates > 0,
           "limits {} {} {} {}", limits.tokens, limits.chunk_tokens, limits.head_rows, limits.candidates);
  Activations::for_each(
      *activations_, parts.shape, parts.ops.activation_dtype(), limits,
      [&](Tensor& tensor, DType dtype, const Shape& shape) { tensor = Tensor(parts_.device, dtype, shape); });
}

Forward::~Forward() = default;

size_t Forward::activation_bytes(const ModelShape& shape, DType activation, const ForwardLimits& limits) {
  size_t bytes = 0;
  Activations none;
  Activations::for_each(none, shape, activation, limits, [&](Tensor&, DType dtype, const Shape& dims) {
    bytes += static_cast<size_t>(dims.elements()) * size_of(dtype);
  });
  return bytes;
}

ForwardResult Forward::run(Stream& stream, const ForwardStep& step) {
  const std::vector<LayerMetadata> metadata = metadata_of(step);
  ForwardResult result;
  result.began = stream.record(EventTiming::kTimed);
  try {
    embed(stream, step);
    run_layers(stream, step, metadata);
    output_head(stream, step, result);
  } catch (...) {
    // What was issued still reads the step and its metadata.
    try {
      stream.synchronize();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the first failure is the cause
    }
    throw;
  }
  return result;
}

void Forward::run_layers(Stream& stream, const ForwardStep& step, std::span<const LayerMetadata> metadata) {
  const auto tokens = static_cast<int64_t>(step.ids.size());
  for (int64_t begin = 0; begin < tokens; begin += limits_.chunk_tokens) {
    const ChunkRows rows{.row = begin, .at = 0, .count = std::min(limits_.chunk_tokens, tokens - begin)};
    norm(stream, attention_norm(0), rows, false);
    project(stream, step, 0, rows);
  }
  for (int32_t l = 0; l < parts_.shape.layers; ++l) {
    const std::optional<Event> begin = mark(stream);
    attend(stream, step, metadata[static_cast<size_t>(l)]);
    end_span(stream, begin, "attention", l);
    feed_forward(stream, step, l);
  }
}

// Everything of a layer after attention, and the next layer's projections: those follow in the same chunk, since q, k
// and v overwrite rows that this layer has used. Experts are waited for only when the first chunk needs them.
void Forward::feed_forward(Stream& stream, const ForwardStep& step, int32_t layer) {
  const auto tokens = static_cast<int64_t>(step.ids.size());
  const bool moe = parts_.shape.feed_forward[static_cast<size_t>(layer)] == FeedForward::kMoe;
  std::optional<Event> begin_event = mark(stream);
  for (int64_t begin = 0; begin < tokens; begin += limits_.chunk_tokens) {
    const ChunkRows rows{.row = begin, .at = 0, .count = std::min(limits_.chunk_tokens, tokens - begin)};
    attention_out(stream, layer, rows, Into::kResidual);
    norm(stream, feed_forward_norm(layer), rows, false);
    if (moe) {
      route(stream, step, layer, rows);
      if (begin == 0) {
        end_span(stream, begin_event, "router", layer);
        parts_.experts.begin_layer(stream, layer, moe_rows(rows));
        begin_event = mark(stream);
      }
      MoeRows moe_then_norm = moe_rows(rows);
      moe_then_norm.then = norm_args(attention_norm(layer + 1), rows);
      parts_.experts.run(stream, layer, moe_then_norm);
    } else {
      run_dense(stream, layer, rows);
      norm(stream, attention_norm(layer + 1), rows, true);
    }
    if (layer + 1 < parts_.shape.layers) project(stream, step, layer + 1, rows);
  }
  if (moe && tokens > 0) parts_.experts.end_layer(stream, layer);
  end_span(stream, begin_event, moe ? "experts" : "dense", layer);
}

std::optional<Event> Forward::mark(Stream& stream) const {
  if (parts_.spans == nullptr) return std::nullopt;
  return stream.record(EventTiming::kTimed);
}

void Forward::end_span(Stream& stream, const std::optional<Event>& begin, std::string_view name, int32_t layer) {
  if (begin) parts_.spans->add(Lane::kCompute, fmt::format("{} {}", name, layer), *begin, *mark(stream));
}

Forward::Buffers Forward::buffers() const {
  const Activations& a = *activations_;
  return {a.residual.view(), a.normed.view(), a.delta.view(), a.expert_ids.view(), a.expert_weights.view()};
}

std::vector<LayerMetadata> Forward::metadata_of(const ForwardStep& step) const {
  const auto tokens = static_cast<int64_t>(step.ids.size());
  ZP_CHECK(tokens <= limits_.tokens, "a step of {} tokens, planned for {}", tokens, limits_.tokens);
  std::vector<LayerMetadata> metadata;
  for (int32_t l = 0; l < parts_.shape.layers; ++l) metadata.push_back(layer_metadata(step, l));
  return metadata;
}

LayerMetadata Forward::layer_metadata(const ForwardStep& step, int32_t layer) const {
  const Activations& a = *activations_;
  const auto row_bytes = static_cast<size_t>(parts_.shape.kv_heads * parts_.shape.head_dim) * size_of(a.k.dtype());
  LayerMetadata metadata;
  size_t extents = 0;
  for (const StepSequence& sequence : step.sequences) extents += sequence.prefix.size();
  metadata.extents.reserve(extents);  // spans point into it: it must not move
  for (const StepSequence& sequence : step.sequences) {
    const size_t first = metadata.extents.size();
    for (const KvRun& run : sequence.prefix) {
      const bool pool = run.place == KvRun::Place::kPool;
      const size_t offset = static_cast<size_t>(run.index) * row_bytes;
      metadata.extents.push_back({.k = pool ? parts_.kv_pool.k(layer, run.index) : a.k.view().data() + offset,
                                  .v = pool ? parts_.kv_pool.v(layer, run.index) : a.v.view().data() + offset,
                                  .tokens = run.tokens});
    }
    metadata.sequences.push_back({.row = sequence.row,
                                  .tokens = sequence.tokens,
                                  .prefix = {metadata.extents.data() + first, metadata.extents.size() - first}});
  }
  for (const KeepRun& keep : step.keep)
    metadata.stores.push_back({.row = keep.row,
                               .tokens = keep.tokens,
                               .k = parts_.kv_pool.k(layer, keep.block),
                               .v = parts_.kv_pool.v(layer, keep.block)});
  return metadata;
}

void Forward::embed(Stream& stream, const ForwardStep& step) {
  const auto tokens = static_cast<int64_t>(step.ids.size());
  parts_.ops.embed(stream, {.ids = step.ids,
                            .table = parts_.weights.embedding.view(),
                            .out = activations_->residual.view().rows(0, tokens)});
}

const Tensor* Forward::attention_norm(int32_t layer) const {
  return layer == parts_.shape.layers ? nullptr : &parts_.weights.layers[static_cast<size_t>(layer)].input_norm;
}

const Tensor* Forward::feed_forward_norm(int32_t layer) const {
  return &parts_.weights.layers[static_cast<size_t>(layer)].post_attention_norm;
}

ResidualNormArgs Forward::norm_args(const Tensor* weight, const ChunkRows& rows) const {
  const Activations& a = *activations_;
  return {.residual = a.residual.view().rows(rows.row, rows.count),
          .delta = {},
          .weight = weight != nullptr ? weight->view() : TensorView(),
          .eps = static_cast<float>(parts_.shape.norm_eps),
          .out = weight != nullptr ? a.normed.view().rows(rows.at, rows.count) : TensorView()};
}

void Forward::norm(Stream& stream, const Tensor* weight, const ChunkRows& rows, bool add_delta) {
  ResidualNormArgs args = norm_args(weight, rows);
  if (add_delta) args.delta = activations_->delta.view().rows(rows.at, rows.count);
  parts_.ops.residual_norm(stream, args);
}

void Forward::project(Stream& stream, const ForwardStep& step, int32_t layer, const ChunkRows& rows) {
  const Activations& a = *activations_;
  const LayerWeights& weights = parts_.weights.layers[static_cast<size_t>(layer)];
  const TensorView qkv = a.qkv.view().rows(rows.at, rows.count);
  const auto positions =
      std::span(step.positions).subspan(static_cast<size_t>(rows.row), static_cast<size_t>(rows.count));
  parts_.ops.linear(stream, {.x = a.normed.view().rows(rows.at, rows.count), .weight = &weights.qkv, .out = qkv});
  parts_.ops.rope(stream, {.qkv = qkv,
                           .positions = positions,
                           .inverse_frequencies = parts_.weights.inverse_frequencies.view(),
                           .q_norm = weights.q_norm.view(),
                           .k_norm = weights.k_norm.view(),
                           .eps = static_cast<float>(parts_.shape.norm_eps),
                           .q = a.q.view().rows(rows.row, rows.count),
                           .k = a.k.view().rows(rows.row, rows.count),
                           .v = a.v.view().rows(rows.row, rows.count)});
}

void Forward::attend(Stream& stream, const ForwardStep& step, const LayerMetadata& metadata) {
  const Activations& a = *activations_;
  const auto tokens = static_cast<int64_t>(step.ids.size());
  const TensorView k = a.k.view().rows(0, tokens);
  const TensorView v = a.v.view().rows(0, tokens);
  parts_.ops.store_kv(stream, {.k = k, .v = v, .stores = metadata.stores});
  parts_.ops.attention(stream, {.q = a.q.view().rows(0, tokens),
                                .k = k,
                                .v = v,
                                .sequences = metadata.sequences,
                                .scale = 1.0F / std::sqrt(static_cast<float>(parts_.shape.head_dim)),
                                .out = a.q.view().rows(0, tokens)});
}

void Forward::attention_out(Stream& stream, int32_t layer, const ChunkRows& rows, Into into) {
  const Activations& a = *activations_;
  const ModelShape& m = parts_.shape;
  const TensorView attended = a.q.view().rows(rows.row, rows.count);
  const Shape flat{rows.count, int64_t{m.query_heads} * m.head_dim};
  const bool add = into == Into::kResidual;
  parts_.ops.linear(
      stream, {.x = {attended.data(), attended.dtype(), flat},
               .weight = &parts_.weights.layers[static_cast<size_t>(layer)].attention_out,
               .out = add ? a.residual.view().rows(rows.row, rows.count) : a.delta.view().rows(rows.at, rows.count),
               .add = add});
}

void Forward::run_dense(Stream& stream, int32_t layer, const ChunkRows& rows) {
  const Activations& a = *activations_;
  const LayerWeights& weights = parts_.weights.layers[static_cast<size_t>(layer)];
  const TensorView gate_up = a.gate_up.view().rows(rows.at, rows.count);
  const TensorView inner = a.inner.view().rows(rows.at, rows.count);
  const TensorView normed = a.normed.view().rows(rows.at, rows.count);
  parts_.ops.linear(stream, {.x = normed, .weight = &weights.gate_up, .out = gate_up});
  parts_.ops.swiglu(stream, {.x = gate_up, .out = inner});
  parts_.ops.linear(stream, {.x = inner, .weight = &weights.down, .out = a.delta.view().rows(rows.at, rows.count)});
}

void Forward::route(Stream& stream, const ForwardStep& step, int32_t layer, const ChunkRows& rows) {
  const Activations& a = *activations_;
  const LayerWeights& weights = parts_.weights.layers[static_cast<size_t>(layer)];
  const TensorView logits = a.router.view().rows(rows.at, rows.count);
  const TensorView normed = a.normed.view().rows(rows.at, rows.count);
  parts_.ops.linear(stream, {.x = normed, .weight = &weights.router, .out = logits});
  const bool drawn = !weights.routes.view().empty();
  const auto of_rows = [&](const std::vector<int32_t>& values) {
    return std::span(values).subspan(static_cast<size_t>(rows.row), static_cast<size_t>(rows.count));
  };
  parts_.ops.route(stream, {.logits = logits,
                            .normalize = parts_.shape.normalize_top_k,
                            .ids = a.expert_ids.view().rows(rows.at, rows.count),
                            .weights = a.expert_weights.view().rows(rows.at, rows.count),
                            .table = weights.routes.view(),
                            .tokens = drawn ? of_rows(step.ids) : std::span<const int32_t>(),
                            .positions = drawn ? of_rows(step.positions) : std::span<const int32_t>()});
}

MoeRows Forward::moe_rows(const ChunkRows& rows) const {
  const Activations& a = *activations_;
  return {.x = a.normed.view().rows(rows.at, rows.count),
          .ids = a.expert_ids.view().rows(rows.at, rows.count),
          .weights = a.expert_weights.view().rows(rows.at, rows.count),
          .out = a.delta.view().rows(rows.at, rows.count)};
}

void Forward::run_experts(Stream& stream, const ChunkRows& rows, std::span<const std::byte* const> experts) {
  parts_.ops.moe(stream, moe_rows(rows).args(experts, {parts_.shape.hidden, parts_.shape.expert_intermediate}));
}

// Takes as many head rows at a time as the buffers hold; results leave by the stream before the next part overwrites
// them.
void Forward::output_head(Stream& stream, const ForwardStep& step, ForwardResult& result) {
  const auto rows = static_cast<int64_t>(step.head_rows.size());
  result.logits.resize(step.candidates.size());
  result.log_sum_exp.resize(step.head_rows.size());
  std::vector<std::vector<int64_t>> rebased;  // each part's offsets, from its first candidate on; live until the end
  for (int64_t begin = 0; begin < rows;) {
    const std::span<const int64_t> offsets = std::span(step.candidate_offsets).subspan(static_cast<size_t>(begin));
    int64_t count = 1;
    while (count < std::min(limits_.head_rows, rows - begin) &&
           offsets[static_cast<size_t>(count) + 1] - offsets[0] <= limits_.candidates)
      ++count;
    std::vector<int64_t>& part = rebased.emplace_back();
    for (int64_t r = 0; r <= count; ++r) part.push_back(offsets[static_cast<size_t>(r)] - offsets[0]);
    head_part(stream, step, {begin, count}, part);
    stream.copy(result.logits.data() + offsets[0], activations_->logits.view().data(),
                static_cast<size_t>(part.back()) * sizeof(float));
    stream.copy(result.log_sum_exp.data() + begin, activations_->log_sum_exp.view().data(),
                static_cast<size_t>(count) * sizeof(float));
    begin += count;
  }
  result.ended = stream.record(EventTiming::kTimed);
  stream.synchronize();
}

void Forward::head_part(Stream& stream, const ForwardStep& step, RowRange rows, std::span<const int64_t> offsets) {
  const Activations& a = *activations_;
  Ops& ops = parts_.ops;
  const int64_t candidates = offsets.back();
  ZP_CHECK(candidates <= limits_.candidates, "{} candidates, planned for {}", candidates, limits_.candidates);
  const auto first_row = static_cast<size_t>(rows.begin);
  const auto first_candidate = static_cast<size_t>(step.candidate_offsets[first_row]);
  const TensorView residual = a.head_residual.view().rows(0, rows.count);
  const TensorView normed = a.head_normed.view().rows(0, rows.count);
  ops.gather_rows(stream, {.x = a.residual.view(),
                           .rows = std::span(step.head_rows).subspan(first_row, static_cast<size_t>(rows.count)),
                           .out = residual});
  ops.residual_norm(stream, {.residual = residual,
                             .delta = {},
                             .weight = parts_.weights.final_norm.view(),
                             .eps = static_cast<float>(parts_.shape.norm_eps),
                             .out = normed});
  ops.head(stream, {.x = normed,
                    .weight = &parts_.weights.head,
                    .offsets = offsets,
                    .candidates = std::span(step.candidates).subspan(first_candidate, static_cast<size_t>(candidates)),
                    .logits = a.logits.view().rows(0, candidates),
                    .log_sum_exp = a.log_sum_exp.view().rows(0, rows.count)});
}

}  // namespace zp
