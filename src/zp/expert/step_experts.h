// A rank's experts as its steps see them: brings experts to tokens or tokens to experts, as each step's mode says.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "zp/expert/activation_sender.h"
#include "zp/expert/expert_server.h"
#include "zp/expert/hybrid.h"
#include "zp/expert/mode_chooser.h"
#include "zp/expert/step_mode.h"
#include "zp/expert/streamed.h"
#include "zp/model/moe_runner.h"
#include "zp/shape/transfer.h"

namespace zp {

/// Modes are chosen step by step, and rank by rank. A step whose wanted mode is not available gathers all: those that
/// depend on routing need the whole step's at once, so they are for steps of one chunk; activations are sent in steps
/// of at most so many tokens, and only while no owner has failed. Owned by the rank's thread.
class StepExperts final : public MoeRunner {
 public:
  /// What is referred to outlives it.
  struct Parts {
    Ops& ops;
    const ModelShape& shape;
    const Placement& placement;
    ModeCostSpec cost;
    int64_t chunk_tokens = 0;
    std::unique_ptr<ExpertSource> source;
    StreamedExperts* streamed = nullptr;       ///< `source`, if it can fetch what is routed to; else null
    HybridExperts* hybrid = nullptr;           ///< `source`, if it shares a window with other ranks; else null
    std::unique_ptr<ActivationSender> sender;  ///< null: activations are not sent
    ExpertServer* server = nullptr;            ///< of this rank; null: it serves nobody
    std::optional<StepMode> fixed;             ///< unset: chosen, once calibrated
  };
  explicit StepExperts(Parts parts);
  ~StepExperts() override;

  [[nodiscard]] std::string_view description() const noexcept { return parts_.source->description(); }
  void set_busy(bool busy) { parts_.source->set_busy(busy); }
  /// The rank runs nothing any more: whoever depends on it fails with this cause.
  void abandon(const std::exception_ptr& failure);

  /// There is a choice, and nothing yet to base it on.
  [[nodiscard]] bool wants_calibration() const;
  [[nodiscard]] LinkTiming time_link() { return parts_.streamed->time_link(); }
  /// Bytes a second of each link that experts come over, with what each copy costs besides; 0 where none come, infinite
  /// if too fast to tell. `scratch` as in HybridExperts::time_links(). Between steps; blocks.
  [[nodiscard]] LinkRates time_links(std::span<std::byte> scratch);
  [[nodiscard]] const Placement& placement() const noexcept { return parts_.placement; }
  [[nodiscard]] uint64_t blob_bytes() const noexcept { return parts_.cost.blob_bytes; }
  /// The experts of a layer that is complete here: not a streamed one.
  [[nodiscard]] std::span<const std::byte* const> resident_layer(int32_t layer, Stream& stream) {
    return parts_.source->acquire(layer, stream);
  }
  /// How long a link with this calibration takes to bring all remote experts of a step.
  [[nodiscard]] double gather_seconds(const Calibration& calibration) const {
    return ModeCost(parts_.shape, parts_.placement, parts_.cost, calibration).seconds(StepMode::kGatherAll, {}, {});
  }
  /// From now on modes are chosen by what was measured.
  void use(const Calibration& calibration);

  /// Before a step. Until there is a calibration, a step without a fixed mode gathers all.
  StepMode begin_step(const StepLoad& load) { return begin_step(load, wanted_mode(load)); }
  /// The same in a given mode, if it is available.
  StepMode begin_step(const StepLoad& load, StepMode wanted);
  /// After a step that failed: another rank may have failed that activations were sent to. Then this one may run the
  /// step once more, on a new stream, gathering all.
  [[nodiscard]] bool has_lost_an_owner() const {
    return mode_ == StepMode::kSendActivations && parts_.server->is_alive() && parts_.sender->has_lost_jobs();
  }
  struct StepOutcome {
    StepMode mode = StepMode::kGatherAll;
    std::vector<LayerWait> waits;
    StreamedExperts::RoutedCount routed;
  };
  /// After it, once its acts have run; `seconds` is what it took. A step that failed teaches nothing.
  StepOutcome end_step(double seconds, bool failed);
  /// What the last steps say about routing is taken into account; for calibration.
  void observe_routing(const StepLoad& load, const StreamedExperts::RoutedCount& routed);

  void begin_layer(Stream& stream, int32_t layer, const MoeRows& first) override;
  void run(Stream& stream, int32_t layer, const MoeRows& rows) override;
  void end_layer(Stream& stream, int32_t layer) override;

 private:
  [[nodiscard]] bool is_available(StepMode mode, const StepLoad& load) const;
  [[nodiscard]] StepMode wanted_mode(const StepLoad& load) const;
  [[nodiscard]] bool sends(int32_t layer) const;

  Parts parts_;
  const ExpertSize size_;
  SourceMoe gathered_;
  std::optional<ModeChooser> chooser_;
  StepLoad load_;  // of the step
  StepMode mode_ = StepMode::kGatherAll;
  std::span<const std::byte* const> experts_;  // of the layer, when it was fetched by routing
};

}  // namespace zp
