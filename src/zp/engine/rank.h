// One device with its worker thread: loads the model there and runs steps.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "zp/base/bounded_queue.h"
#include "zp/base/clock.h"
#include "zp/device/factory.h"
#include "zp/engine/memory_plan.h"
#include "zp/expert/step_experts.h"
#include "zp/model/forward.h"
#include "zp/ops/factory.h"
#include "zp/schedule/load_controller.h"

namespace zp {

/// What a rank is made of.
struct RankSpec {
  DeviceSpec device;
  OpsSpec ops;
  ForwardLimits limits;
  int64_t kv_blocks = 0;
  bool measure = false;                    ///< measures itself before it runs steps, unless it is known:
  std::optional<MeasuredRank> measured{};  ///< as if it had been measured
  int32_t window = 1;                      ///< layers that t_EP is the mean over
};

/// What is known of a rank before it runs steps.
struct RankCalibration {
  MeasuredRank measured{};
  double transfer_seconds = 0;  ///< t_EP
};

/// What a rank's failure means to the others.
enum class RankFailure : uint8_t {
  kOthersGoOn,  ///< its requests run elsewhere, once; the engine ends with its last rank
  kEndsAll,     ///< ranks depend on one another: every request fails with the cause
};

struct StepWork {
  uint64_t id = 0;
  ForwardStep step;
};

struct StepReport {
  uint64_t id = 0;
  ForwardResult result;
  std::exception_ptr failure;  ///< set: there is no result, and the rank runs nothing any more
  double seconds = 0;
  int64_t reported_ns = 0;          ///< when, on the engine's clock
  std::optional<int64_t> began_ns;  ///< on the device, as SteadyClock has it; empty if it was not timed
  std::optional<int64_t> ended_ns;
  std::vector<LayerWait> waits;  ///< for experts, by layer; two of a layer that sent activations
  StepMode mode = StepMode::kGatherAll;
};

/// Who runs steps, as the scheduling thread sees it: one after another, in the order they are started, each reported
/// once.
class StepRunner {
 public:
  using Report = std::function<void(StepReport)>;

  virtual ~StepRunner() = default;
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  /// Blocks only if more than the steps that a rank may have (one running, one staged) are started.
  virtual void start(StepWork work) = 0;
  /// For people: what computes, with which operations, and where the experts come from.
  struct Description {
    std::string device;
    std::string operations;
    std::string experts;
  };
  [[nodiscard]] virtual Description description() const = 0;
  /// Empty: it was not measured.
  [[nodiscard]] virtual std::optional<RankCalibration> calibration() const { return std::nullopt; }

 protected:
  StepRunner() = default;
};

/// start() is called by the scheduling thread; `report` is called by the rank's own.
class Rank final : public StepRunner {
 public:
  /// What a rank works with; all that is referred to outlives it.
  struct Parts {
    Device& device;
    Ops& ops;
    const ModelShape& shape;
    const ModelWeights& weights;
    std::unique_ptr<StepExperts> experts;
    SpanLog* spans = nullptr;  ///< null: no trace is wanted
    const Clock& clock;
  };
  /// Measures itself if told so, and calibrates the choice of step modes if there is one, before it returns. Throws
  /// what a device throws.
  Rank(const RankSpec& spec, Parts parts, Report report);
  /// Runs what was started, then ends.
  ~Rank() override;

  void start(StepWork work) override;
  [[nodiscard]] Description description() const override;
  [[nodiscard]] std::optional<RankCalibration> calibration() const override { return calibration_; }

 private:
  void run();
  [[nodiscard]] StepReport run_step(const StepWork& work);

  static constexpr size_t kQueuedSteps = 2;

  Parts parts_;
  Report report_;
  KvPool kv_pool_;
  Forward forward_;
  std::unique_ptr<Stream> stream_;
  std::optional<RankCalibration> calibration_;
  BoundedQueue<StepWork> queue_{kQueuedSteps};
  std::thread thread_;
};

}  // namespace zp
