// A rank's thread.
#include "zp/engine/rank.h"

#include <utility>

#include "zp/base/host_info.h"
#include "zp/cache/block_hash.h"

namespace zp {

Rank::Rank(const RankSpec& spec, const ModelFiles& files, const Clock& clock, Report report)
    : clock_(clock),
      report_(std::move(report)),
      device_(make_device(spec.device)),
      ops_(make_ops(*device_, spec.ops)),
      shape_(files.shape()),
      weights_(load_weights(files, *device_, *ops_)),
      experts_(shape_, ExpertReader(files, *ops_), *device_,
               spec.device.threads > 0 ? spec.device.threads : usable_cores()),
      kv_pool_(*device_, shape_, ops_->activation_dtype(), kBlockTokens, spec.kv_blocks),
      forward_({*device_, *ops_, shape_, weights_, experts_, kv_pool_}, spec.limits),
      stream_(device_->create_stream("compute")),
      thread_([this] { run(); }) {}

Rank::~Rank() {
  queue_.close();
  thread_.join();
}

void Rank::start(StepWork work) {
  const bool accepted = queue_.push(std::move(work));
  ZP_CHECK(accepted, "a step is started on a rank that is being destroyed");
}

StepRunner::Description Rank::description() const {
  return {device_->description(), std::string(ops_->description()), std::string(experts_.description())};
}

void Rank::run() {
  std::exception_ptr failure;
  while (std::optional<StepWork> work = queue_.pop()) {
    StepReport report{.id = work->id, .result = {}, .failure = failure, .seconds = 0};
    const int64_t begin_ns = clock_.now_ns();
    if (!failure) {
      try {
        report.result = forward_.run(*stream_, work->step);
      } catch (...) {
        // A device that failed once is not used again: its memory may be anything.
        failure = report.failure = std::current_exception();
      }
    }
    report.seconds = static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9;
    report_(std::move(report));
  }
}

}  // namespace zp
