// How far what was measured is off for the steps that run: two factors, fitted to their times.
#pragma once

#include <cstdint>

namespace zp {

/// Of one step's compute time: what was predicted for attention and for all else, and what it took.
struct TimedWork {
  double attention_seconds = 0;
  double other_seconds = 0;
  double seconds = 0;
};

/// Fits seconds = attention x attention_seconds + other x other_seconds, where both factors are 1 until steps say
/// otherwise: recursive least squares on relative errors, with forgetting, which is quicker while steps take far longer
/// or shorter than expected, one after another. Steps all alike cannot tell the two factors apart, and move both; steps
/// of other lengths then do, within a few. Deterministic.
class RateFit final {
 public:
  struct Factors {
    double attention = 1;
    double other = 1;
  };
  enum class Memory : uint8_t {
    kRecent,  ///< old steps are forgotten, so that rates are followed
    /// Every step counts alike: what steps do not tell stays what was measured, however many there are.
    kAll,
  };
  explicit RateFit(Memory memory = Memory::kRecent) : memory_(memory) {}
  [[nodiscard]] const Factors& factors() const noexcept { return factors_; }
  /// What all steps together took, over what was predicted for them.
  [[nodiscard]] double common_factor() const noexcept {
    return predicted_seconds_ > 0 ? seconds_ / predicted_seconds_ : 1;
  }
  /// Ignored unless all of it is finite, `seconds` and what was predicted are positive.
  void observe(const TimedWork& work);

 private:
  void forget(double share);

  Memory memory_;
  Factors factors_;
  double seconds_ = 0;            ///< of all steps
  double predicted_seconds_ = 0;  ///< for the same
  /// Covariance of the factors, in units of the variance of one observation's relative error.
  double attention_variance_ = kVarianceMax;
  double other_variance_ = kVarianceMax;
  double covariance_ = 0;
  int32_t since_surprise_ = kSurpriseSteps;  ///< steps since the last surprise, counted up to here

  static constexpr int32_t kSurpriseSteps = 4;  // a surprise so soon after another is no accident
  static constexpr double kVarianceMax = 100;   // with errors of 5 %: factors may well be off by half
};

}  // namespace zp
