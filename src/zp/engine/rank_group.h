// Everything the ranks of an engine share: their devices and weights, the experts in all places, and their traces.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "zp/device/span_log.h"
#include "zp/engine/setup.h"
#include "zp/expert/cluster.h"
#include "zp/expert/hybrid.h"
#include "zp/expert/step_experts.h"
#include "zp/model/weights.h"
#include "zp/ops/ops.h"

namespace zp {

/// Outlives the ranks: they copy from each other's memory until the last one has ended.
class RankGroup final {
 public:
  /// One rank's device with its replicated weights.
  struct Loaded {
    std::unique_ptr<Device> device;
    std::unique_ptr<Ops> ops;
    std::unique_ptr<Ops> server_ops;  ///< null unless activations are sent
    ModelWeights weights;
    std::unique_ptr<SpanLog> spans;  ///< null unless a trace is wanted
  };

  /// Loads all ranks, one after another. Blocks. Both outlive it.
  RankGroup(const EngineSetup& setup, const WeightSource& source);

  [[nodiscard]] Loaded& rank(int32_t rank) { return ranks_.at(static_cast<size_t>(rank)); }
  [[nodiscard]] int32_t size() const noexcept { return static_cast<int32_t>(ranks_.size()); }
  /// Where `rank` gets its experts from; it begins to fetch at once.
  [[nodiscard]] std::unique_ptr<StepExperts> make_experts(int32_t rank);
  /// Spans that have ended, by rank; empty unless a trace is wanted.
  [[nodiscard]] std::vector<std::vector<Span>> spans() const;
  /// Spans that there was no room for.
  [[nodiscard]] int64_t dropped_spans() const;
  /// What placing the weights of all ranks and the host took, and how many bytes they have.
  [[nodiscard]] double load_seconds() const noexcept { return load_seconds_; }
  [[nodiscard]] uint64_t weight_bytes() const noexcept { return weight_bytes_; }

 private:
  void load(const WeightSource& source);
  void connect();
  void make_servers();

  const EngineSetup& setup_;
  const ModelShape& shape_;
  std::vector<Loaded> ranks_;
  std::unique_ptr<ExpertCluster> cluster_;              // its memory is that of the ranks' devices
  std::unique_ptr<HostChannel> host_channel_;           // hybrid mode on several ranks only
  std::vector<std::unique_ptr<ExpertServer>> servers_;  // [ranks], if activations are sent
  double load_seconds_ = 0;
  uint64_t weight_bytes_ = 0;
};

}  // namespace zp
