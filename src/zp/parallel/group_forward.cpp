// Which collective stands where:
//
//             after attention        experts                                dense layers
//   dp+ep     -                      all-to-all, compute, all-to-all        each rank its own rows
//   dp+tp     -                      all-gather, slices, reduce-scatter     each rank its own rows
//   tp+ep     reduce-scatter         all-to-all, compute, all-to-all        all-gather, slices, reduce-scatter
//             and before attention an all-gather: together one all-reduce
//   tp+tp     all-reduce             slices, all-reduce                     slices, all-reduce
#include "zp/parallel/group_forward.h"

#include "zp/base/check.h"

namespace zp {

GroupForward::GroupForward(const Parts& parts, int64_t chunk_tokens) : parts_(parts), chunk_tokens_(chunk_tokens) {
  ZP_CHECK(!parts.layout.is_pipeline(), "a pipeline is run by PipelineForward");
  if (parts.layout.experts_are_ep() && parts.shape.moe_layers() > 0)
    exchange_.emplace(ExpertExchange::Parts{parts.device, parts.ops, parts.collectives, parts.shape,
                                            expert_owners(parts.model, parts.layout)},
                      chunk_tokens);
  if (parts.ops.activation_dtype() != DType::kF32)
    wire_ = Tensor(parts.device, parts.ops.activation_dtype(), {chunk_tokens, parts.shape.hidden});
}

size_t GroupForward::buffer_bytes(const ModelShape& shape, const GroupLayout& layout, DType activation,
                                  int64_t chunk_tokens) {
  size_t bytes = 0;
  if (layout.experts_are_ep() && shape.moe_layers() > 0)
    bytes += ExpertExchange::buffer_bytes(shape, activation, chunk_tokens, layout.ranks);
  if (activation != DType::kF32) bytes += static_cast<size_t>(chunk_tokens * shape.hidden) * size_of(activation);
  return bytes;
}

ForwardResult GroupForward::run(Stream& stream, const ForwardStep& step, std::span<const int64_t> tokens) {
  ForwardResult result;
  try {
    rounds_ = make_rounds({parts_.layout, parts_.collectives.rank(), tokens, chunk_tokens_});
    metadata_ = parts_.forward.metadata_of(step);
    issue(stream, step, result);
    stream.synchronize();
  } catch (...) {
    // The others must not wait for this rank, and its queued acts must end before what they read goes away.
    const std::exception_ptr cause = std::current_exception();
    parts_.collectives.abort(cause);
    try {
      stream.synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the first cause is what counts
    }
    std::rethrow_exception(cause);
  }
  return result;
}

void GroupForward::issue(Stream& stream, const ForwardStep& step, ForwardResult& result) {
  Forward& forward = parts_.forward;
  forward.embed(stream, step);
  for (const Round& round : rounds_) {
    forward.norm(stream, forward.attention_norm(0), round.own, false);
    begin_layer(stream, step, 0, round);
  }
  for (int32_t l = 0; l < parts_.shape.layers; ++l) {
    forward.attend(stream, step, metadata_[static_cast<size_t>(l)]);
    const bool moe = parts_.shape.feed_forward[static_cast<size_t>(l)] == FeedForward::kMoe;
    const auto experts = moe ? parts_.experts.acquire(l, stream) : std::span<const std::byte* const>();
    for (const Round& round : rounds_) {
      end_attention(stream, l, round);
      forward.norm(stream, forward.feed_forward_norm(l), round.own, true);
      feed_forward(stream, {step, l, round, experts});
      forward.norm(stream, forward.attention_norm(l + 1), round.own, true);
      if (l + 1 < parts_.shape.layers) begin_layer(stream, step, l + 1, round);
    }
    if (moe) parts_.experts.release(l, stream);
  }
  forward.output_head(stream, step, result);
}

// q, k and v of the rows whose attention is this rank's business, from the normed rows it owns.
void GroupForward::begin_layer(Stream& stream, const ForwardStep& step, int32_t layer, const Round& round) {
  if (parts_.layout.strategy == Strategy::kTpEp) gather_normed(stream, layer, round);
  parts_.forward.project(stream, step, layer, round.attention);
}

// Leaves the attention's result, summed over the heads of all ranks, in the own rows of delta.
void GroupForward::end_attention(Stream& stream, int32_t layer, const Round& round) {
  parts_.forward.attention_out(stream, layer, round.attention, Forward::Into::kDelta);
  if (parts_.layout.attention_is_tp()) sum_own(stream, layer, round);
}

// Leaves the feed-forward part's result in the own rows of delta.
void GroupForward::feed_forward(Stream& stream, const FeedForwardPart& part) {
  const auto& [step, layer, round, experts] = part;
  Forward& forward = parts_.forward;
  const bool moe = !experts.empty();
  if (moe && parts_.layout.experts_are_ep()) {
    forward.route(stream, step, layer, round.own);
    exchange_->run(stream, {layer, &round, forward.buffers(), experts});
    return;
  }
  if (!moe && parts_.layout.attention_is_dp()) return forward.run_dense(stream, layer, round.own);
  // Every rank computes a slice of all rows. With TP experts after TP attention it has them already.
  const ChunkRows all{.row = 0, .at = 0, .count = round.total};
  if (parts_.layout.strategy != Strategy::kTpTp) gather_normed(stream, layer, round);
  if (moe) {
    forward.route(stream, step, layer, all);
    forward.run_experts(stream, all, experts);
  } else {
    forward.run_dense(stream, layer, all);
  }
  sum_own(stream, layer, round);
}

// Sums partial results in delta over the ranks: for all rows where everybody owns them, else for the own ones. They
// travel in type A, as in other systems.
void GroupForward::sum_own(Stream& stream, int32_t layer, const Round& round) {
  const TensorView delta = parts_.forward.buffers().delta.rows(0, round.total);
  const bool travels_as_is = parts_.ops.activation_dtype() == DType::kF32;
  const TensorView wire = travels_as_is ? delta : wire_.view().rows(0, round.total);
  const TrafficTag tag{layer, TrafficUse::kActivations};
  if (!travels_as_is) parts_.ops.convert(stream, {.x = delta, .out = wire});
  if (parts_.layout.strategy == Strategy::kTpTp) {
    parts_.collectives.all_reduce(stream, wire, tag);
  } else {
    parts_.collectives.reduce_scatter(stream, {wire, round.counts}, tag);
  }
  if (!travels_as_is)
    parts_.ops.convert(
        stream, {.x = wire.rows(round.own.at, round.own.count), .out = delta.rows(round.own.at, round.own.count)});
}

void GroupForward::gather_normed(Stream& stream, int32_t layer, const Round& round) {
  parts_.collectives.all_gather(stream, {parts_.forward.buffers().normed.rows(0, round.total), round.counts},
                                {layer, TrafficUse::kActivations});
}

}  // namespace zp
