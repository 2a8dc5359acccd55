// Pulls rows, computes, pushes results.
#include "zp/expert/expert_server.h"

#include <fmt/format.h>

#include <utility>

#include "zp/base/check.h"
#include "zp/base/error.h"

namespace zp {
namespace {

// Calls `make(tensor, dtype, shape)` for each buffer of a job's place, so that planning and allocating agree.
template <typename Place, typename Make>
void for_each_buffer(Place& place, const ExpertServerSpec& spec, DType activation, Make&& make) {
  make(place.x, activation, Shape{spec.job_rows, spec.size.hidden});
  make(place.experts, DType::kI32, Shape{spec.job_rows, 1});
  make(place.out, DType::kF32, Shape{spec.job_rows, spec.size.hidden});
}

}  // namespace

JobTicket::Done JobTicket::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  return *done_;
}

void JobTicket::set(Done done) {
  {
    const std::lock_guard lock(mutex_);
    done_ = std::move(done);
  }
  changed_.notify_all();
}

void JobTicket::fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
  }
  changed_.notify_all();
}

ExpertServer::ExpertServer(const Parts& parts, const ExpertServerSpec& spec)
    : spec_(spec),
      ops_(parts.ops),
      spans_(parts.spans),
      experts_(parts.cluster.local_experts(spec.rank)),
      ones_(parts.device, DType::kF32, {spec.job_rows, 1}),
      pull_stream_(parts.device.create_stream("serve: pull", StreamUse::kPeerLink)),
      compute_stream_(parts.device.create_stream("serve")),
      push_stream_(parts.device.create_stream("serve: push", StreamUse::kPeerLink)) {
  for (Place& place : places_)
    for_each_buffer(place, spec, ops_.activation_dtype(), [&](Tensor& tensor, DType dtype, const Shape& shape) {
      tensor = Tensor(parts.device, dtype, shape);
    });
  const std::vector<float> ones(static_cast<size_t>(spec.job_rows), 1.0F);
  compute_stream_->copy(ones_.view().data(), ones.data(), ones_.size_bytes());
  compute_stream_->synchronize();
  thread_ = std::thread([this] { run(); });
}

ExpertServer::~ExpertServer() {
  queue_.close();
  thread_.join();
}

uint64_t ExpertServer::buffer_bytes(const ExpertServerSpec& spec, DType activation) {
  uint64_t place_bytes = 0;
  Place none;
  for_each_buffer(none, spec, activation, [&](Tensor&, DType dtype, const Shape& shape) {
    place_bytes += static_cast<uint64_t>(shape.elements()) * size_of(dtype);
  });
  return 2 * place_bytes + static_cast<uint64_t>(spec.job_rows) * sizeof(float);
}

void ExpertServer::submit(ExpertJob job) {
  ZP_CHECK(job.rows > 0 && job.rows <= spec_.job_rows && job.rows_ready && job.ticket, "a job of {} rows, at most {}",
           job.rows, spec_.job_rows);
  const std::shared_ptr<JobTicket> ticket = job.ticket;
  if (!queue_.push(std::move(job)))
    ticket->fail(std::make_exception_ptr(
        Error(ErrorCode::kCancelled, fmt::format("the expert server of rank {} has ended", spec_.rank))));
}

void ExpertServer::abandon(const std::exception_ptr& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
}

bool ExpertServer::is_alive() const {
  const std::lock_guard lock(mutex_);
  return failure_ == nullptr && (!last_ || last_->status() != EventStatus::kFailed);
}

void ExpertServer::run() {
  while (const std::optional<ExpertJob> job = queue_.pop()) serve(*job);
}

void ExpertServer::serve(const ExpertJob& job) {
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    failure = failure_;
  }
  try {
    if (failure) refuse(failure);
    // Waited for here rather than on a stream, where a sender's failure would end all serving.
    job.rows_ready->wait();
  } catch (...) {
    return job.ticket->fail(std::current_exception());
  }
  try {
    job.ticket->set(issue(job));
  } catch (...) {
    abandon(std::current_exception());
    try {
      refuse(std::current_exception());
    } catch (...) {
      job.ticket->fail(std::current_exception());
    }
  }
}

void ExpertServer::refuse(const std::exception_ptr& failure) const {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& cause) {
    fail(ErrorCode::kDevice, "rank {}, which holds the experts that are needed, has failed: {}", spec_.rank,
         cause.what());
  }
}

JobTicket::Done ExpertServer::issue(const ExpertJob& job) {
  Place& place = places_[next_place_];
  next_place_ = (next_place_ + 1) % places_.size();
  // Both throw what has failed before.
  if (place.done) place.done->wait();
  const Place& other = places_[next_place_];
  if (other.done && other.done->status() == EventStatus::kFailed) other.done->wait();
  const TensorView x = place.x.view().rows(0, job.rows);
  const TensorView experts = place.experts.view().rows(0, job.rows);
  const TensorView out = place.out.view().rows(0, job.rows);
  pull_stream_->copy(x.data(), job.x, x.size_bytes());
  compute_stream_->copy(experts.data(), job.experts, experts.size_bytes());
  compute_stream_->wait(pull_stream_->record());
  const Event begin = compute_stream_->record(EventTiming::kTimed);
  ops_.moe(*compute_stream_, {.x = x,
                              .ids = experts,
                              .weights = ones_.view().rows(0, job.rows),
                              .experts = experts_.at(static_cast<size_t>(job.layer)),
                              .size = spec_.size,
                              .out = out});
  const Event computed = compute_stream_->record(EventTiming::kTimed);
  if (spans_ != nullptr) spans_->add(Lane::kServe, fmt::format("serve {}", job.layer), begin, computed);
  push_stream_->wait(computed);
  push_stream_->copy(job.results, out.data(), static_cast<size_t>(out.size_bytes()));
  const Event arrived = push_stream_->record();
  place.done = arrived;
  {
    const std::lock_guard lock(mutex_);
    last_ = arrived;
  }
  return {computed, arrived};
}

}  // namespace zp
