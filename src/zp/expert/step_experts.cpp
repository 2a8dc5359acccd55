// Directs each layer to what its step's mode uses.
#include "zp/expert/step_experts.h"

#include <utility>

namespace zp {

StepExperts::StepExperts(Parts parts)
    : parts_(std::move(parts)),
      size_{parts_.shape.hidden, parts_.shape.expert_intermediate},
      gathered_(parts_.ops, *parts_.source, size_) {}

StepExperts::~StepExperts() = default;

void StepExperts::abandon(const std::exception_ptr& failure) {
  if (parts_.server != nullptr) parts_.server->abandon(failure);
  parts_.source->abandon(failure);
}

bool StepExperts::wants_calibration() const {
  return !parts_.fixed && !chooser_ && parts_.streamed != nullptr && parts_.streamed->fetches();
}

void StepExperts::use(const Calibration& calibration) {
  chooser_.emplace(ModeCost(parts_.shape, parts_.placement, parts_.cost, calibration));
}

LinkRates StepExperts::time_links(std::span<std::byte> scratch) {
  const auto rate = [&](const LinkTiming& timing) {
    return timing.effective_rate(parts_.cost.blob_bytes, parts_.cost.slice_bytes);
  };
  if (parts_.hybrid != nullptr) {
    const HybridExperts::LinkTimings timings = parts_.hybrid->time_links(scratch);
    return {.peer = rate(timings.peer), .host = rate(timings.host)};
  }
  if (parts_.streamed == nullptr || !parts_.streamed->fetches()) return {};
  const double all = rate(parts_.streamed->time_link());
  return parts_.streamed->from_peers() ? LinkRates{.peer = all, .host = 0} : LinkRates{.peer = 0, .host = all};
}

bool StepExperts::is_available(StepMode mode, const StepLoad& load) const {
  switch (mode) {
    case StepMode::kGatherAll: return true;
    case StepMode::kFetchRouted:
      return parts_.streamed != nullptr && parts_.streamed->fetches() && load.tokens <= parts_.chunk_tokens;
    case StepMode::kSendActivations:
      return parts_.sender != nullptr && load.tokens <= parts_.sender->tokens_max() &&
             load.tokens <= parts_.chunk_tokens && parts_.sender->owners_are_alive();
  }
  return false;
}

StepMode StepExperts::wanted_mode(const StepLoad& load) const {
  if (parts_.fixed) return *parts_.fixed;
  if (!chooser_) return StepMode::kGatherAll;
  return chooser_->choose(
      load, {true, is_available(StepMode::kFetchRouted, load), is_available(StepMode::kSendActivations, load)});
}

StepMode StepExperts::begin_step(const StepLoad& load, StepMode wanted) {
  load_ = load;
  mode_ = is_available(wanted, load) ? wanted : StepMode::kGatherAll;
  // A step that sends activations leaves the ring alone.
  if (parts_.streamed != nullptr && mode_ != StepMode::kSendActivations)
    parts_.streamed->begin_step(mode_ == StepMode::kGatherAll ? StreamedExperts::Fetch::kAhead
                                                              : StreamedExperts::Fetch::kRouted);
  return mode_;
}

StepExperts::StepOutcome StepExperts::end_step(double seconds, bool failed) {
  StepOutcome outcome{.mode = mode_, .waits = parts_.source->take_waits(), .routed = {}};
  if (parts_.sender != nullptr)
    for (const LayerWait& wait : parts_.sender->take_waits()) outcome.waits.push_back(wait);
  if (parts_.streamed != nullptr) outcome.routed = parts_.streamed->take_routed();
  if (!chooser_ || failed) return outcome;
  int64_t exposed_ns = 0;
  for (const LayerWait& wait : outcome.waits) exposed_ns += wait.exposed_ns;
  chooser_->observe({.load = load_,
                     .mode = mode_,
                     .seconds = seconds,
                     .exposed_seconds = static_cast<double>(exposed_ns) * 1e-9,
                     .routed_layers = outcome.routed.layers,
                     .routed_experts = outcome.routed.experts});
  return outcome;
}

void StepExperts::observe_routing(const StepLoad& load, const StreamedExperts::RoutedCount& routed) {
  if (chooser_)
    chooser_->observe_routing({.load = load, .routed_layers = routed.layers, .routed_experts = routed.experts});
}

// Layers that are complete here have nothing to send.
bool StepExperts::sends(int32_t layer) const {
  return mode_ == StepMode::kSendActivations && parts_.streamed->is_streamed(layer);
}

void StepExperts::begin_layer(Stream& stream, int32_t layer, const MoeRows& first) {
  if (sends(layer)) return parts_.sender->begin_layer(stream, layer, first);
  if (mode_ == StepMode::kGatherAll) return gathered_.begin_layer(stream, layer, first);
  experts_ = parts_.streamed->acquire_routed(layer, stream, first.ids);
}

void StepExperts::run(Stream& stream, int32_t layer, const MoeRows& rows) {
  if (sends(layer)) {
    parts_.sender->finish_layer(stream, layer, rows);
    const MoeArgs args = rows.args({}, size_);
    if (args.norm_follows()) parts_.ops.residual_norm(stream, args.norm_of_out());
    return;
  }
  if (mode_ == StepMode::kGatherAll) return gathered_.run(stream, layer, rows);
  parts_.ops.moe(stream, rows.args(experts_, size_));
}

void StepExperts::end_layer(Stream& stream, int32_t layer) {
  if (!sends(layer)) parts_.source->release(layer, stream);
}

}  // namespace zp
