// Receive, compute, send.
#include "zp/parallel/pipeline_forward.h"

namespace zp {

PipelineForward::PipelineForward(const Parts& parts, int64_t tokens)
    : parts_(parts), wire_(parts.device, parts.ops.activation_dtype(), {tokens, parts.hidden}) {}

size_t PipelineForward::buffer_bytes(int64_t hidden, DType activation, int64_t tokens) {
  return static_cast<size_t>(tokens * hidden) * size_of(activation);
}

std::vector<ForwardResult> PipelineForward::run(Stream& stream, std::span<const ForwardStep* const> micro_batches) {
  std::vector<ForwardResult> results(micro_batches.size());
  try {
    metadata_.clear();
    for (const ForwardStep* step : micro_batches) metadata_.push_back(parts_.forward.metadata_of(*step));
    for (size_t i = 0; i < micro_batches.size(); ++i) run_one(stream, *micro_batches[i], metadata_[i], results[i]);
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
  return results;
}

void PipelineForward::run_one(Stream& stream, const ForwardStep& step, std::span<const LayerMetadata> metadata,
                              ForwardResult& result) {
  const auto tokens = static_cast<int64_t>(step.ids.size());
  const TensorView residual = parts_.forward.buffers().residual.rows(0, tokens);
  const TensorView wire = wire_.view().rows(0, tokens);
  const int32_t rank = parts_.collectives.rank();
  if (is_first()) {
    parts_.forward.embed(stream, step);
  } else {
    parts_.collectives.receive(stream, wire, rank - 1, {parts_.layers.begin, TrafficUse::kActivations});
    parts_.ops.convert(stream, {.x = wire, .out = residual});
  }
  parts_.forward.run_layers(stream, step, metadata);
  if (is_last()) {
    parts_.forward.output_head(stream, step, result);
  } else {
    parts_.ops.convert(stream, {.x = residual, .out = wire});
    parts_.collectives.send(stream, wire, rank + 1, {parts_.layers.end() - 1, TrafficUse::kActivations});
  }
}

}  // namespace zp
