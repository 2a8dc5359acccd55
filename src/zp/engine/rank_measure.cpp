// A layer's parts one by one, between timed events.
#include "zp/engine/rank_measure.h"

#include <algorithm>
#include <array>
#include <limits>

#include "zp/engine/calibration.h"
#include "zp/shape/flops.h"

namespace zp {
namespace {

constexpr int64_t kTokensMin = 64;
constexpr int64_t kSequenceTokens = 1024;
constexpr double kLayerSeconds = 0.03;  // no more tokens are taken once a layer of twice as many would take this long
constexpr double kBatchSeconds = 0.015;
constexpr double kBatchMax = 256;
constexpr size_t kRepeats = 3;
constexpr double kRateMax = 1e17;  // where the clock is too coarse to tell

template <typename Issue>
double timed(Stream& stream, Issue&& issue) {
  const Event begin = stream.record(EventTiming::kTimed);
  issue();
  const Event end = stream.record(EventTiming::kTimed);
  stream.synchronize();
  return static_cast<double>(*end.reached_ns() - *begin.reached_ns()) * 1e-9;
}

// Of one of a batch that takes some milliseconds, so that what a clock and a waking thread are off by matters little.
template <typename Issue>
double timed_in_batch(Stream& stream, Issue&& issue) {
  const double once = timed(stream, issue);
  const auto batch = static_cast<int32_t>(std::clamp(kBatchSeconds / std::max(once, 1e-9), 1.0, kBatchMax));
  if (batch == 1) return once;
  return timed(stream,
               [&] {
                 for (int32_t i = 0; i < batch; ++i) issue();
               }) /
         batch;
}

/// Of the parts of a layer.
struct LayerSeconds {
  double attention = 0;
  double dense = 0;
  double expert = 0;

  [[nodiscard]] double total() const noexcept { return attention + dense + expert; }
};

/// Runs the parts of one layer: of a MoE layer, if there is one.
class LayerTimer final {
 public:
  explicit LayerTimer(const MeasureParts& parts) : parts_(parts) {
    for (int32_t l = 0; l < parts.shape.layers && !moe_; ++l) {
      moe_ = parts.shape.feed_forward[static_cast<size_t>(l)] == FeedForward::kMoe;
      if (moe_) layer_ = l;
    }
  }

  [[nodiscard]] bool has_experts() const noexcept { return moe_; }
  [[nodiscard]] FeedForward kind() const { return parts_.shape.feed_forward[static_cast<size_t>(layer_)]; }

  /// Each part once, or in batches for more digits.
  [[nodiscard]] LayerSeconds run(int64_t tokens, bool batches) {
    Forward& forward = parts_.forward;
    Stream& stream = parts_.stream;
    const auto time = [&](const auto& part) {
      return batches ? timed_in_batch(parts_.stream, part) : timed(parts_.stream, part);
    };
    const ForwardStep step = made_up_step(parts_.shape, tokens, kSequenceTokens);
    const std::vector<LayerMetadata> metadata = forward.metadata_of(step);
    const ChunkRows rows{.row = 0, .at = 0, .count = tokens};
    const std::span<const std::byte* const> blobs =
        moe_ ? parts_.experts.resident_layer(layer_, stream) : std::span<const std::byte* const>();
    LayerSeconds seconds;
    forward.embed(stream, step);
    const auto before = [&] {
      forward.norm(stream, forward.attention_norm(layer_), rows, false);
      forward.project(stream, step, layer_, rows);
    };
    const auto after = [&] {
      forward.attention_out(stream, layer_, rows, Forward::Into::kResidual);
      forward.norm(stream, forward.feed_forward_norm(layer_), rows, false);
      moe_ ? forward.route(stream, step, layer_, rows) : forward.run_dense(stream, layer_, rows);
    };
    const auto attention = [&] { forward.attend(stream, step, metadata[static_cast<size_t>(layer_)]); };
    const auto expert = [&] { forward.run_experts(stream, rows, blobs); };
    seconds.dense = time(before);
    seconds.attention = time(attention);
    seconds.dense += time(after);
    if (moe_) seconds.expert = time(expert);
    return seconds;
  }

  // A token's way in, and one row of the output head: what a step takes besides its layers.
  [[nodiscard]] double run_ends() {
    const ForwardStep step = made_up_step(parts_.shape, 1, 1);
    ForwardResult result;
    return timed(parts_.stream, [&] {
      parts_.forward.embed(parts_.stream, step);
      parts_.forward.output_head(parts_.stream, step, result);
    });
  }

 private:
  MeasureParts parts_;
  int32_t layer_ = 0;
  bool moe_ = false;
};

double rate_of(int64_t flops, double seconds) {
  return seconds > 0 ? std::min(kRateMax, static_cast<double>(flops) / seconds) : kRateMax;
}

// Medians of a few: other work makes single ones slower, and a modelled device that woke late makes the next quicker.
LayerSeconds usual(LayerTimer& timer, int64_t tokens) {
  std::array<LayerSeconds, kRepeats> runs{};
  for (LayerSeconds& run : runs) run = timer.run(tokens, true);
  const auto median = [&](double LayerSeconds::*part) {
    std::ranges::sort(runs, {}, part);
    return runs[kRepeats / 2].*part;
  };
  return {.attention = median(&LayerSeconds::attention),
          .dense = median(&LayerSeconds::dense),
          .expert = median(&LayerSeconds::expert)};
}

}  // namespace

MeasuredRank measure_rank(const MeasureParts& parts) {
  LayerTimer timer(parts);
  const int64_t tokens_max = std::min(parts.limits.tokens, parts.limits.chunk_tokens);
  int64_t tokens = std::min(kTokensMin, tokens_max);
  (void)timer.run(tokens, false);  // the first time, memory is touched and code loaded
  while (tokens < tokens_max && 2 * timer.run(tokens, false).total() < kLayerSeconds)
    tokens = std::min(2 * tokens, tokens_max);
  const LayerSeconds seconds = usual(timer, tokens);

  const ModelShape& shape = parts.shape;
  const LinearFlops linear = linear_flops(shape, timer.kind());
  int64_t pairs = 0;
  for (const StepSequence& sequence : made_up_step(shape, tokens, kSequenceTokens).sequences)
    pairs += visible_pairs({.prefix = 0, .suffix = sequence.tokens});
  MeasuredRank measured;
  measured.rates.attention = rate_of(pairs * attention_flops(shape, {.prefix = 0, .suffix = 1}), seconds.attention);
  measured.rates.dense = rate_of(tokens * (linear.projections + linear.router + linear.dense), seconds.dense);
  measured.rates.expert = timer.has_experts() ? rate_of(tokens * linear.experts, seconds.expert) : measured.rates.dense;
  measured.step_seconds = std::min(timer.run_ends(), timer.run_ends());
  const TensorView scratch = parts.forward.buffers().residual;
  const LinkRates links = parts.experts.time_links({scratch.data(), scratch.size_bytes()});
  measured.links = {.peer = std::min(kRateMax, links.peer), .host = std::min(kRateMax, links.host)};
  return measured;
}

LayerTransfer transfer_of(const Placement& placement, uint64_t blob_bytes, const LinkRates& links, int32_t window) {
  if (placement.streamed_layers().empty() || blob_bytes == 0) return {};
  // Every rank streams what is in host memory by itself, unless ranks share the streaming.
  const bool alone = placement.placing() == Placing::kHost;
  ExpertSpread spread{.ranks = alone ? 1 : placement.ranks(),
                      .experts = placement.experts(),
                      .expert_bytes = static_cast<int64_t>(blob_bytes),
                      .remote = std::vector<int32_t>(static_cast<size_t>(placement.layers()), 0),
                      .host_by_layer = std::vector<int32_t>(static_cast<size_t>(placement.layers()), 0)};
  for (const int32_t l : placement.streamed_layers()) {
    for (int32_t e = 0; e < placement.experts(); ++e) {
      spread.remote[static_cast<size_t>(l)] += placement.on_rank({l, e}, 0) ? 0 : 1;
      spread.host_by_layer[static_cast<size_t>(l)] += placement.home({l, e}) == Placement::kHost ? 1 : 0;
    }
  }
  spread.host_experts = std::ssize(placement.experts_on_host());
  return layer_transfer(spread, links, window);
}

}  // namespace zp
