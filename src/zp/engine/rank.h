// One device with its worker thread: loads the model there and runs steps.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "zp/base/bounded_queue.h"
#include "zp/base/clock.h"
#include "zp/device/factory.h"
#include "zp/engine/memory_plan.h"
#include "zp/expert/resident.h"
#include "zp/model/forward.h"
#include "zp/ops/factory.h"

namespace zp {

/// What a rank is made of.
struct RankSpec {
  DeviceSpec device;
  OpsSpec ops;
  ForwardLimits limits;
  int64_t kv_blocks = 0;
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

 protected:
  StepRunner() = default;
};

/// start() is called by the scheduling thread; `report` is called by the rank's own.
class Rank final : public StepRunner {
 public:
  /// Loads the model; blocks. `files` and `clock` outlive the rank.
  Rank(const RankSpec& spec, const ModelFiles& files, const Clock& clock, Report report);
  /// Runs what was started, then ends.
  ~Rank() override;

  void start(StepWork work) override;
  [[nodiscard]] Description description() const override;

 private:
  void run();

  static constexpr size_t kQueuedSteps = 2;

  const Clock& clock_;
  Report report_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Ops> ops_;
  ModelShape shape_;
  ModelWeights weights_;
  ResidentExperts experts_;
  KvPool kv_pool_;
  Forward forward_;
  std::unique_ptr<Stream> stream_;
  BoundedQueue<StepWork> queue_{kQueuedSteps};
  std::thread thread_;
};

}  // namespace zp
