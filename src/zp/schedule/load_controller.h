// When steps are full, while the engine runs: rates, gamma and the target follow what steps take. Pure arithmetic.
#pragma once

#include <cstdint>
#include <optional>

#include "zp/schedule/cost.h"
#include "zp/schedule/rate_fit.h"
#include "zp/schedule/saturation.h"
#include "zp/schedule/step_plan.h"
#include "zp/shape/transfer.h"

namespace zp {

/// What was measured of one rank. Links: bytes a second with what each copy costs besides; 0 where nothing comes.
struct MeasuredRank {
  OperationRates rates{};
  LinkRates links{};
  double step_seconds = 0;  ///< of a step besides its layers and its further requests' heads
};

inline constexpr double kGammaMax = 2;
/// So many large steps may correct what was measured for later runs.
inline constexpr int32_t kSettledSteps = 8;

struct LoadControllerSpec {
  MeasuredRank measured{};
  double transfer_seconds = 0;            ///< t_EP
  double gamma = 1.2;                     ///< in [1, kGammaMax]
  bool adapt = true;                      ///< false: everything stays as measured
  int64_t context_tokens = 4096;          ///< until requests have been seen
  int64_t efficient_step_tokens = 4096;   ///< the target is no less
  std::optional<double> fixed_seconds{};  ///< the target, whatever was measured
  std::optional<int64_t> fixed_tokens{};  ///< likewise; then load is counted in tokens
};

/// A step that has run.
struct StepObservation {
  RequestCost cost{};
  int64_t requests = 0;
  double fill = 0;  ///< its load over the target
  StopReason filled_by = StopReason::kQueueEnded;
  bool sent_activations = false;  ///< other ranks computed experts for it: its time says nothing of the rates
  double seconds = 0;             ///< what it took
  double exposed_seconds = 0;     ///< of these, compute stood still for experts
  double peer_wait_seconds = 0;   ///< of these, for another rank: a larger step would not hide it
};

/// Three things follow the steps that are large: at least a quarter of the target, or of the tokens from which steps
/// are efficient (the target may be wrong), or ended by a limit and yet much more work than what a step takes besides.
/// Rates: fitted to compute times (RateFit). The length of requests, as their tokens' share of attention shows it: T in
/// tokens, and the target where it is that of efficient steps, are for these lengths. Gamma: rises while full steps are
/// exposed to transfers, falls slowly while they are not. The rule in use changes only when one of them has moved by a
/// few percent.
class LoadController final {
 public:
  LoadController(const ModelShape& shape, const LoadControllerSpec& spec);

  /// True if the rule has changed.
  bool observe(const StepObservation& step);

  /// The rule for steps planned from now on.
  [[nodiscard]] LoadRule rule() const;
  [[nodiscard]] bool counts_tokens() const noexcept { return spec_.fixed_tokens.has_value(); }
  /// T and target as they are in use.
  [[nodiscard]] const Saturation& saturation() const noexcept { return saturation_; }
  /// With the rates in use.
  [[nodiscard]] MeasuredRank measured() const;
  /// With rates for later runs: fitted to all steps with at least a quarter of the work of efficient_step_tokens
  /// tokens, or, before there were kSettledSteps of these, as measured. What a small step takes is mostly not work, and
  /// a few may have been slow by accident. All by one factor where a fit of two makes no sense.
  [[nodiscard]] MeasuredRank settled() const;
  [[nodiscard]] double gamma() const noexcept { return used_.gamma; }
  [[nodiscard]] double context_tokens() const noexcept { return used_.context_tokens; }
  [[nodiscard]] double transfer_seconds() const noexcept { return spec_.transfer_seconds; }
  [[nodiscard]] int64_t recalibrations() const noexcept { return recalibrations_; }

 private:
  /// What the rule is made of.
  struct Basis {
    RateFit::Factors factors{};
    double gamma = 1;
    double context_tokens = 1;
  };

  [[nodiscard]] bool is_efficient(const StepObservation& step) const;
  [[nodiscard]] bool is_large(const StepObservation& step) const;
  void follow_rates(const StepObservation& step);
  void follow_gamma(const StepObservation& step);
  void follow_context(const StepObservation& step);
  [[nodiscard]] OperationRates rates(const RateFit::Factors& factors) const;
  [[nodiscard]] bool has_moved() const;
  void use();

  LoadControllerSpec spec_;
  CostModel cost_;
  int32_t layers_;
  double head_seconds_ = 0;              ///< of a request, as measured
  double attention_flops_per_pair_ = 0;  ///< in one layer
  double efficient_flops_ = 0;           ///< in one layer: of efficient_step_tokens, without attention
  RateFit fit_;
  RateFit efficient_fit_{RateFit::Memory::kAll};  ///< of efficient steps alone
  int32_t efficient_steps_ = 0;                   ///< counted up to kSettledSteps
  Basis now_;
  Basis used_;
  Saturation saturation_;
  int64_t recalibrations_ = 0;
};

}  // namespace zp
