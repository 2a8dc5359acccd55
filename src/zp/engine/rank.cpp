// A rank's thread.
#include "zp/engine/rank.h"

#include <utility>

#include "zp/cache/block_hash.h"
#include "zp/engine/calibration.h"
#include "zp/engine/rank_measure.h"

namespace zp {

Rank::Rank(const RankSpec& spec, Parts parts, Report report)
    : parts_(std::move(parts)),
      report_(std::move(report)),
      kv_pool_(parts_.device, parts_.shape, parts_.ops.activation_dtype(), kBlockTokens, spec.kv_blocks),
      forward_({parts_.device, parts_.ops, parts_.shape, parts_.weights, *parts_.experts, kv_pool_, parts_.spans},
               spec.limits),
      stream_(parts_.device.create_stream("compute")) {
  if (spec.measure) {
    RankCalibration& calibration = calibration_.emplace();
    calibration.measured =
        spec.measured ? *spec.measured : measure_rank({parts_.shape, spec.limits, forward_, *parts_.experts, *stream_});
    calibration.transfer_seconds =
        transfer_of(parts_.experts->placement(), parts_.experts->blob_bytes(), calibration.measured.links, spec.window)
            .seconds();
  }
  if (parts_.experts->wants_calibration())
    calibrate({parts_.shape, spec.limits, forward_, *parts_.experts, *stream_, parts_.clock});
  if (parts_.spans != nullptr) parts_.spans->clear();  // what was made up is not what ran
  thread_ = std::thread([this] { run(); });
}

Rank::~Rank() {
  queue_.close();
  thread_.join();
}

void Rank::start(StepWork work) {
  const bool accepted = queue_.push(std::move(work));
  ZP_CHECK(accepted, "a step is started on a rank that is being destroyed");
}

StepRunner::Description Rank::description() const {
  return {parts_.device.description(), std::string(parts_.ops.description()),
          std::string(parts_.experts->description())};
}

void Rank::run() {
  std::exception_ptr failure;
  while (true) {
    std::optional<StepWork> work = queue_.try_pop();
    if (!work) {
      parts_.experts->set_busy(false);
      work = queue_.pop();
      if (!work) return;
    }
    if (failure) {
      // A device that failed once is not used again: its memory may be anything.
      StepReport report;
      report.id = work->id;
      report.failure = failure;
      report_(std::move(report));
      continue;
    }
    parts_.experts->set_busy(true);
    StepReport report = run_step(*work);
    failure = report.failure;
    report_(std::move(report));
    // Only now, so that whoever fails because of this rank is heard after it.
    if (failure) parts_.experts->abandon(failure);
  }
}

StepReport Rank::run_step(const StepWork& work) {
  StepReport report;
  report.id = work.id;
  const StepLoad load = load_of(work.step);
  (void)parts_.experts->begin_step(load);
  Event begin = stream_->record(EventTiming::kTimed);
  const int64_t begin_ns = parts_.clock.now_ns();
  try {
    report.result = forward_.run(*stream_, work.step);
  } catch (...) {
    report.failure = std::current_exception();
  }
  if (report.failure && parts_.experts->has_lost_an_owner()) {
    // Not this rank's failure, although it has ended the stream, which waited for the owner.
    stream_ = parts_.device.create_stream("compute");
    begin = stream_->record(EventTiming::kTimed);
    try {
      (void)parts_.experts->begin_step(load, StepMode::kGatherAll);
      report.result = forward_.run(*stream_, work.step);
      report.failure = nullptr;
    } catch (...) {
      report.failure = std::current_exception();
    }
  }
  report.reported_ns = parts_.clock.now_ns();
  report.seconds = static_cast<double>(report.reported_ns - begin_ns) * 1e-9;
  if (report.result.began) report.began_ns = report.result.began->reached_ns();
  if (report.result.ended) report.ended_ns = report.result.ended->reached_ns();
  StepExperts::StepOutcome outcome = parts_.experts->end_step(report.seconds, report.failure != nullptr);
  report.mode = outcome.mode;
  report.waits = std::move(outcome.waits);
  if (parts_.spans != nullptr)
    parts_.spans->add(Lane::kStep, std::string(to_string(report.mode)), begin, stream_->record(EventTiming::kTimed));
  return report;
}

}  // namespace zp
