// Where the time of a pass goes: operations with events around each, so that the engine knows nothing of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zp/ops/forwarded_ops.h"
#include "zp/shape/model_shape.h"

namespace zp::bench {

/// What limits a stage.
enum class StageKind : uint8_t { kMemory, kDense, kAttention, kExperts };

/// All calls of one stage of a pass: their time and their work. Bytes are those that must move to and from device
/// memory; of products, weights and rows once each.
struct StageTotal {
  StageKind kind = StageKind::kMemory;
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
};

struct PassTotals {
  std::map<std::string, StageTotal> stages;
  double seconds = 0;  ///< from the first operation's beginning to the last one's end
};

/// Passes operations on. While it records, each is timed; else nothing is done. Recorded passes run slower.
class TimedOps final : public ForwardedOps, private StageObserver {
 public:
  /// `shape`, which tells products apart, outlives it.
  TimedOps(std::unique_ptr<Ops> inner, const ModelShape& shape) : ForwardedOps(std::move(inner)), shape_(shape) {}

  /// Between passes. stop() is called when all has run.
  void start();
  [[nodiscard]] PassTotals stop();

  void embed(Stream& stream, const EmbedArgs& args) override;
  void residual_norm(Stream& stream, const ResidualNormArgs& args) override;
  void linear(Stream& stream, const LinearArgs& args) override;
  void rope(Stream& stream, const RopeArgs& args) override;
  void attention(Stream& stream, const AttentionArgs& args) override;
  void store_kv(Stream& stream, const StoreKvArgs& args) override;
  void route(Stream& stream, const RouteArgs& args) override;
  void moe(Stream& stream, const MoeArgs& args) override;
  void swiglu(Stream& stream, const SwigluArgs& args) override;
  void gather_rows(Stream& stream, const GatherRowsArgs& args) override;
  void convert(Stream& stream, const ConvertArgs& args) override;
  void combine(Stream& stream, const CombineArgs& args) override;
  void head(Stream& stream, const HeadArgs& args) override;

 private:
  struct Entry {
    std::string stage;
    Event begin;
    Event end;
  };
  struct Work {
    StageKind kind = StageKind::kMemory;
    double flops = 0;
    double bytes = 0;
  };

  void end_stage(Stream& stream, std::string_view stage) override;
  template <typename Issue>
  void time(Stream& stream, const std::string& stage, const Work& work, Issue&& issue);
  void add_work(const std::string& stage, const Work& work);
  [[nodiscard]] std::string product_name(int64_t n, int64_t k) const;

  const ModelShape& shape_;
  bool recording_ = false;
  std::vector<Entry> entries_;
  std::map<std::string, StageTotal> totals_;
  std::optional<Event> stage_begin_;  // of the part of moe() that runs
};

}  // namespace zp::bench
