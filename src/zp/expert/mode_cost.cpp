// docs/notes/below_threshold.md has the formulae in words.
#include "zp/expert/mode_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "zp/base/check.h"
#include "zp/shape/flops.h"
#include "zp/shape/ring_timeline.h"

namespace zp {

ModeCost::ModeCost(const ModelShape& shape, const Placement& placement, const ModeCostSpec& spec,
                   const Calibration& calibration)
    : spec_(spec),
      calibration_(calibration),
      ranks_(placement.ranks()),
      experts_(shape.experts),
      experts_per_token_(shape.experts_per_token),
      hidden_(shape.hidden),
      attention_flops_per_pair_(static_cast<double>(attention_flops(shape, {.prefix = 0, .suffix = 1}))),
      head_flops_per_row_(static_cast<double>(head_flops(shape))) {
  ZP_CHECK(calibration.flops_per_second > 0 && calibration.link_bytes_per_second > 0, "rates of {} FLOP/s, {} B/s",
           calibration.flops_per_second, calibration.link_bytes_per_second);
  ZP_CHECK(spec.slots >= 2 && spec.slice_bytes > 0 && spec.job_rows > 0, "{} slots, slices of {}, jobs of {}",
           spec.slots, spec.slice_bytes, spec.job_rows);
  for (int32_t l = 0; l < shape.layers; ++l) {
    const LinearFlops flops = linear_flops(shape, shape.feed_forward[static_cast<size_t>(l)]);
    layers_.push_back({.outside_flops_per_token = static_cast<double>(flops.projections + flops.router + flops.dense),
                       .expert_flops_per_token = static_cast<double>(flops.experts)});
  }
  for (const int32_t l : placement.streamed_layers()) {
    Layer& layer = layers_[static_cast<size_t>(l)];
    layer.streamed = true;
    for (int32_t e = 0; e < placement.experts(); ++e)
      layer.remote_experts += placement.on_rank({l, e}, spec.rank) ? 0 : 1;
    remote_experts_ += layer.remote_experts / static_cast<double>(placement.streamed_layers().size());
  }
}

double ModeCost::expected_experts(double experts, int64_t tokens) const {
  if (experts_ <= 0) return 0;
  return experts * (1 - std::pow(1 - experts_per_token_ / experts_, static_cast<double>(tokens)));
}

ModeCost::LayerSeconds ModeCost::layer_seconds(const Layer& layer, const StepLoad& load, double factor) const {
  const auto tokens = static_cast<double>(load.tokens);
  const double scale = factor / calibration_.flops_per_second;
  return {.outside = scale * (tokens * layer.outside_flops_per_token +
                              static_cast<double>(load.attention_pairs) * attention_flops_per_pair_),
          .experts = scale * tokens * layer.expert_flops_per_token};
}

double ModeCost::compute_seconds(const StepLoad& load) const {
  double seconds = calibration_.step_seconds +
                   static_cast<double>(load.head_rows) * head_flops_per_row_ / calibration_.flops_per_second;
  for (const Layer& layer : layers_) {
    const LayerSeconds part = layer_seconds(layer, load, 1);
    seconds += part.outside + part.experts;
  }
  return seconds;
}

// Of that many experts of a layer.
double ModeCost::fetch_seconds(double experts) const {
  const double copies = std::ceil(static_cast<double>(spec_.blob_bytes) / static_cast<double>(spec_.slice_bytes));
  return experts * (copies * calibration_.copy_seconds +
                    static_cast<double>(spec_.blob_bytes) / calibration_.link_bytes_per_second);
}

// The third step is as all later ones.
double ModeCost::gather_all(const StepLoad& load, double factor) const {
  constexpr int32_t kSteps = 3;
  std::vector<double> gathers;
  std::vector<TimedLayer> layers;
  for (const Layer& layer : layers_) {
    const LayerSeconds part = layer_seconds(layer, load, factor);
    layers.push_back({.outside = part.outside, .experts = part.experts, .streamed = layer.streamed});
    if (layer.streamed) gathers.push_back(fetch_seconds(layer.remote_experts));
  }
  const double head = static_cast<double>(load.head_rows) * head_flops_per_row_ / calibration_.flops_per_second;
  RingTimeline ring(spec_.slots, std::move(gathers), 0);
  double begin = 0;
  double end = 0;
  for (int32_t step = 0; step < kSteps; ++step) {
    begin = end;
    end = ring.run(begin, factor * calibration_.step_seconds, layers, factor * head).end;
  }
  return end - begin;
}

// A layer's experts when every rank sends and serves alike: the same computing as ever, but the remote part of it waits
// for rows, and goes back row by row.
double ModeCost::send_layer(const Layer& layer, const StepLoad& load, double expert_seconds) const {
  const double remote = layer.remote_experts / experts_;
  const double rows = static_cast<double>(load.tokens) * experts_per_token_ * remote;
  const double owners = std::min(static_cast<double>(ranks_ - 1), std::max(rows, 1.0));
  const double jobs = owners * std::ceil(rows / owners / static_cast<double>(spec_.job_rows));
  const double row_in = hidden_ * static_cast<double>(spec_.activation_bytes) / calibration_.link_bytes_per_second;
  const double row_out = hidden_ * sizeof(float) / calibration_.link_bytes_per_second;
  const double served = expert_seconds * remote;
  const double own = expert_seconds - served;
  if (jobs <= 0) return calibration_.sync_seconds + expert_seconds;
  const double first_in = calibration_.copy_seconds + rows / jobs * row_in;
  const double last_out = calibration_.copy_seconds + rows / jobs * row_out;
  const double link = jobs * 2 * calibration_.copy_seconds + rows * (row_in + row_out);
  return calibration_.sync_seconds + std::max(link, std::max(own, first_in) + served + last_out);
}

double ModeCost::seconds(StepMode mode, const StepLoad& load, const Corrections& corrections) const {
  if (mode == StepMode::kGatherAll) return gather_all(load, corrections.compute);
  double seconds = corrections.compute * compute_seconds(load);
  for (const Layer& layer : layers_) {
    if (!layer.streamed) continue;
    if (mode == StepMode::kFetchRouted) {
      const double experts =
          std::min(layer.remote_experts, corrections.routed * expected_experts(layer.remote_experts, load.tokens));
      seconds += calibration_.sync_seconds + fetch_seconds(experts);
    } else {
      const double computing = layer_seconds(layer, load, corrections.compute).experts;
      seconds += send_layer(layer, load, computing) - computing;
    }
  }
  return seconds;
}

}  // namespace zp
