// The scheduling thread.
#include "zp/engine/dispatcher.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "zp/base/error.h"
#include "zp/engine/step_builder.h"

namespace zp {
namespace {

// How often it is looked whether requests that wait for a busy rank, beside an idle one, should wait no longer: their
// deadlines press, or the rank is late.
constexpr std::chrono::milliseconds kRestCheck{10};

std::string message_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

Answer make_answer(const Segment& segment, std::span<const float> logits, float log_sum_exp) {
  Answer answer;
  answer.logits.assign(logits.begin(), logits.end());
  answer.log_sum_exp = log_sum_exp;
  answer.best = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  answer.prompt_tokens = segment.end;
  answer.cached_tokens = segment.begin;
  return answer;
}

}  // namespace

Dispatcher::Dispatcher(const SchedulerConfig& config, const ModelShape& shape, const Clock& clock,
                       const MakeRank& make_rank, const Options& options)
    : clock_(clock),
      max_pending_(config.queue_max),
      options_(options),
      router_(config, shape, clock, options.policy),
      load_(config.load),
      step_tokens_max_(config.step_tokens_max),
      idle_since_ns_(static_cast<size_t>(config.ranks()), clock.now_ns()),
      waiting_since_ns_(static_cast<size_t>(config.ranks())),
      ranks_alive_(config.ranks()) {
  for (int32_t rank = 0; rank < config.ranks(); ++rank)
    ranks_.push_back(make_rank(rank, [this](StepReport report) { (void)commands_.push(std::move(report)); }));
  const StepRunner::Description description = ranks_.front()->description();
  stats_.device = description.device;
  stats_.operations = description.operations;
  stats_.experts = description.experts;
  stats_.ranks.resize(ranks_.size());
  first_begin_ns_.resize(ranks_.size());
  for (RankStats& rank : stats_.ranks) rank.exposed_seconds_by_layer.resize(static_cast<size_t>(shape.layers));
  stats_.load_unit = "tokens";
  if (const std::optional<RankCalibration> calibration = ranks_.front()->calibration()) {
    LoadControllerSpec load = options.load;
    load.measured = calibration->measured;
    load.transfer_seconds = calibration->transfer_seconds;
    load_controller_.emplace(shape, load);
    settled_ = load_controller_->settled();
    use_load();
  }
  thread_ = std::thread([this] { run(); });
}

Dispatcher::~Dispatcher() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  (void)commands_.push(Stop{});
  thread_.join();
  commands_.close();  // nobody listens to ranks that still report
  ranks_.clear();
}

uint64_t Dispatcher::submit(CheckedRequest request, Callback callback) {
  const uint64_t bytes = request_bytes(static_cast<int64_t>(request.schedule.tokens.size()),
                                       static_cast<int64_t>(request.candidates.size()));
  uint64_t id = 0;
  {
    std::unique_lock lock(mutex_);
    // The last one taken may go beyond the limit of bytes: else a large request could wait behind small ones for ever.
    changed_.wait(lock, [this] {
      return (unanswered_ < max_pending_ && unanswered_bytes_ < options_.pending_bytes_max) || closing_;
    });
    if (closing_) fail(ErrorCode::kCancelled, "the engine is shutting down");
    ++unanswered_;
    unanswered_bytes_ += bytes;
    id = next_id_++;
  }
  request.schedule.id = id;
  request.schedule.arrival_ns = clock_.now_ns();
  if (request.deadline_ns) request.schedule.deadline_ns = request.schedule.arrival_ns + *request.deadline_ns;
  if (!commands_.push(Submission{id, std::move(request), std::move(callback)}))
    fail(ErrorCode::kCancelled, "the engine is shutting down");
  return id;
}

void Dispatcher::cancel(uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
  }
  // With a full queue the scheduling thread is awake, and comes by cancelled_ once it has emptied it.
  (void)commands_.try_push(Wake{});
}

void Dispatcher::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return unanswered_ == 0; });
}

EngineStats Dispatcher::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::optional<MeasuredRank> Dispatcher::settled() const {
  const std::lock_guard lock(mutex_);
  return settled_;
}

void Dispatcher::run() {
  while (true) {
    const bool timed = !failure_ && router_.rest_waits();
    std::optional<Command> command = timed ? commands_.pop_within(kRestCheck) : commands_.pop();
    ZP_CHECK(command.has_value() || timed, "the command queue was closed before the scheduling thread stopped");
    // All that has arrived is taken in before planning, so that a step sees whatever it could hold. Cancellations are
    // taken first and applied last: the submission of a cancelled request is then among the commands in between.
    do {
      const std::vector<uint64_t> cancelled = take_cancelled();
      for (; command; command = commands_.try_pop()) {
        if (std::holds_alternative<Stop>(*command)) return stop();
        if (auto* submission = std::get_if<Submission>(&*command)) handle(*submission);
        if (auto* report = std::get_if<StepReport>(&*command)) handle(*report);
      }
      for (const uint64_t id : cancelled) apply_cancellation(id);
      command = commands_.try_pop();
    } while (command || any_cancelled());
    if (!failure_) start_steps();
  }
}

std::vector<uint64_t> Dispatcher::take_cancelled() {
  const std::lock_guard lock(mutex_);
  return std::exchange(cancelled_, {});
}

bool Dispatcher::any_cancelled() const {
  const std::lock_guard lock(mutex_);
  return !cancelled_.empty();
}

// submit() takes nothing since closing_ was set, before Stop was sent; what it took before may still be queued. (To
// destroy an engine while a thread is inside submit() is that thread's error.)
void Dispatcher::stop() {
  failure_ = Failure{ErrorCode::kCancelled, "the engine was shut down"};
  while (std::optional<Command> command = commands_.try_pop())
    if (auto* submission = std::get_if<Submission>(&*command)) handle(*submission);
  fail_all(*failure_);
}

void Dispatcher::handle(Submission& submission) {
  requests_.emplace(submission.id, Pending{.tokens = submission.request.schedule.tokens,
                                           .candidates = std::move(submission.request.candidates),
                                           .callback = std::move(submission.callback)});
  if (failure_) return finish(submission.id, *failure_);
  const int64_t arrival_ns = submission.request.schedule.arrival_ns;
  const SubmitResult result = router_.submit(std::move(submission.request.schedule));
  // Intake has checked the length, ids are unique, and the queue holds max_pending_ requests.
  ZP_CHECK(result == SubmitResult::kAccepted, "the scheduler refused a checked request: {}", static_cast<int>(result));
  note_waiting(arrival_ns);
}

void Dispatcher::apply_cancellation(uint64_t id) {
  if (!requests_.contains(id)) return;
  (void)router_.cancel(id);
  note_waiting(clock_.now_ns());
  finish(id, Failure{ErrorCode::kCancelled, "the request was cancelled"});
}

void Dispatcher::handle(StepReport& report) {
  if (recalled_.erase(report.id) > 0) return;
  const auto found = steps_.find(report.id);
  ZP_CHECK(found != steps_.end(), "a rank reports step {}, which it was not given", report.id);
  const RunningStep step = std::move(found->second);
  steps_.erase(found);
  if (failure_) return;  // everybody has been told
  if (report.failure)
    return retire(step.plan,
                  {ErrorCode::kDevice, fmt::format("rank {} failed: {}", step.plan.rank, message_of(report.failure))});
  (void)router_.finish_step(step.plan.id, StepOutcome::kDone);
  const int32_t rank = step.plan.rank;
  if (router_.unfinished_steps(rank) == 0) idle_since_ns_[static_cast<size_t>(rank)] = report.reported_ns;
  count_step(step, report);
  follow_step(step, report);
  answer_segments(step, report.result);
}

// Who waits may have changed: for ranks that nothing waited for, something may do since then; for others nothing may
// any more, because a step (of any rank) took the last request, or it was cancelled.
void Dispatcher::note_waiting(int64_t since_ns) {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    std::optional<int64_t>& waiting_ns = waiting_since_ns_[r];
    if (router_.queued_for(static_cast<int32_t>(r)) > 0) {
      if (!waiting_ns) waiting_ns = since_ns;
    } else if (waiting_ns) {
      count_planner_wait(r, since_ns);
      waiting_ns.reset();
    }
  }
}

// Time up to now in which a rank was idle and requests waited.
void Dispatcher::count_planner_wait(size_t rank, int64_t now_ns) {
  std::optional<int64_t>& idle_ns = idle_since_ns_[rank];
  if (!idle_ns || !waiting_since_ns_[rank]) return;
  const int64_t begin_ns = std::max(*idle_ns, *waiting_since_ns_[rank]);
  if (now_ns <= begin_ns) return;
  idle_ns = now_ns;
  const std::lock_guard lock(mutex_);
  stats_.ranks[rank].planner_wait_seconds += static_cast<double>(now_ns - begin_ns) * 1e-9;
}

void Dispatcher::count_step(const RunningStep& step, const StepReport& report) {
  const StepPlan& plan = step.plan;
  const std::lock_guard lock(mutex_);
  RankStats& rank = stats_.ranks[static_cast<size_t>(plan.rank)];
  ++rank.steps;
  rank.staged_steps += step.staged ? 1 : 0;
  rank.fill += (plan.load / step.target - rank.fill) / static_cast<double>(rank.steps);
  rank.load += (plan.load - rank.load) / static_cast<double>(rank.steps);
  rank.cached_tokens += plan.hit_tokens;
  switch (report.mode) {
    case StepMode::kGatherAll: ++rank.steps_by_mode.gather_all; break;
    case StepMode::kFetchRouted: ++rank.steps_by_mode.fetch_routed; break;
    case StepMode::kSendActivations: ++rank.steps_by_mode.send_activations; break;
  }
  rank.computed_tokens += plan.tokens;
  rank.compute_seconds += report.seconds;
  if (report.began_ns && report.ended_ns) {
    int64_t& first_ns = first_begin_ns_[static_cast<size_t>(plan.rank)];
    if (first_ns == 0) first_ns = *report.began_ns;
    rank.busy_seconds += static_cast<double>(*report.ended_ns - *report.began_ns) * 1e-9;
    rank.active_seconds = static_cast<double>(*report.ended_ns - first_ns) * 1e-9;
  }
  ++stats_.steps;
  stats_.compute_seconds += report.seconds;
  for (const LayerWait& wait : report.waits) {
    const double exposed = static_cast<double>(wait.exposed_ns) * 1e-9;
    const double peer_wait = static_cast<double>(wait.peer_wait_ns) * 1e-9;
    rank.exposed_seconds_by_layer[static_cast<size_t>(wait.layer)] += exposed;
    rank.exposed_seconds += exposed;
    rank.peer_wait_seconds += peer_wait;
    stats_.exposed_seconds += exposed;
    stats_.peer_wait_seconds += peer_wait;
  }
}

// What a step took may change the rates, gamma and target of later ones.
void Dispatcher::follow_step(const RunningStep& step, const StepReport& report) {
  if (!load_controller_) return;
  StepObservation seen{.cost = step.plan.cost,
                       .requests = std::ssize(step.plan.segments),
                       .fill = step.plan.load / step.target,
                       .filled_by = step.plan.filled_by,
                       .sent_activations = report.mode == StepMode::kSendActivations,
                       .seconds = report.seconds};
  for (const LayerWait& wait : report.waits) {
    seen.exposed_seconds += static_cast<double>(wait.exposed_ns) * 1e-9;
    seen.peer_wait_seconds += static_cast<double>(wait.peer_wait_ns) * 1e-9;
  }
  if (load_controller_->observe(seen)) use_load();
  const std::lock_guard lock(mutex_);
  settled_ = load_controller_->settled();
}

void Dispatcher::use_load() {
  load_ = load_controller_->rule();
  router_.set_load(load_);
  const MeasuredRank measured = load_controller_->measured();
  const Saturation& saturation = load_controller_->saturation();
  const auto amount = [](const LayerWork& work) {
    return WorkAmount{.flops = work.flops, .tokens = work.tokens, .milliseconds = work.seconds * 1e3};
  };
  const std::lock_guard lock(mutex_);
  stats_.load_unit = load_controller_->counts_tokens() ? "tokens" : "layer seconds";
  stats_.saturation = {.attention_flops_per_second = measured.rates.attention,
                       .dense_flops_per_second = measured.rates.dense,
                       .expert_flops_per_second = measured.rates.expert,
                       .peer_bytes_per_second = measured.links.peer,
                       .host_bytes_per_second = measured.links.host,
                       .transfer_seconds = load_controller_->transfer_seconds(),
                       .gamma = load_controller_->gamma(),
                       .context_tokens = load_controller_->context_tokens(),
                       .threshold = amount(saturation.threshold),
                       .target = amount(saturation.target),
                       .step_tokens_max = step_tokens_max_,
                       .recalibrations = load_controller_->recalibrations()};
}

// The rank of a failed step runs nothing more. Its requests go to the other ranks, unless they were in a failed step
// before: what fails wherever it runs must not take one rank after another with it.
void Dispatcher::retire(const StepPlan& plan, const Failure& failure) {
  --ranks_alive_;
  {
    const std::lock_guard lock(mutex_);
    stats_.ranks[static_cast<size_t>(plan.rank)].failure = failure.message;
  }
  if (ranks_alive_ == 0 || options_.rank_failure == RankFailure::kEndsAll) {
    failure_ = failure;
    return fail_all(failure);
  }
  for (const Segment& segment : plan.segments) {
    const auto request = requests_.find(segment.request);
    if (request == requests_.end() || ++request->second.failed_steps < 2) continue;
    (void)router_.cancel(segment.request);
    finish(segment.request, failure);
  }
  for (const uint64_t step : router_.retire_rank(plan.rank))
    if (steps_.erase(step) > 0) recalled_.insert(step);
  note_waiting(clock_.now_ns());
}

void Dispatcher::answer_segments(const RunningStep& step, const ForwardResult& result) {
  for (size_t i = 0; i < step.plan.segments.size(); ++i) {
    const Segment& segment = step.plan.segments[i];
    if (!requests_.contains(segment.request)) continue;  // cancelled while the step ran
    const auto first = static_cast<size_t>(step.candidate_offsets[i]);
    const auto last = static_cast<size_t>(step.candidate_offsets[i + 1]);
    finish(segment.request,
           make_answer(segment, std::span(result.logits).subspan(first, last - first), result.log_sum_exp[i]));
  }
}

// An idle rank takes whatever there is, before any rank has its second step; a busy one waits for a step worth staging,
// and what that leaves goes to ranks that are idle still.
void Dispatcher::start_steps() {
  for (StepPlan& plan : router_.steps_for_idle()) start_step(std::move(plan));
  for (StepPlan& plan : router_.steps_for_busy()) start_step(std::move(plan));
  for (StepPlan& plan : router_.steps_for_rest()) start_step(std::move(plan));
  note_waiting(clock_.now_ns());
}

void Dispatcher::start_step(StepPlan plan) {
  ForwardStep step = build_step(plan, [this](uint64_t id) {
    const Pending& request = requests_.at(id);
    return RequestView{.tokens = request.tokens, .candidates = request.candidates};
  });
  if (options_.routes != nullptr) options_.routes->add(step.ids, step.positions);
  const uint64_t id = plan.id;
  const int32_t r = plan.rank;
  StepRunner& rank = *ranks_.at(static_cast<size_t>(r));
  const bool staged = router_.unfinished_steps(r) > 1;
  count_planner_wait(static_cast<size_t>(r), clock_.now_ns());
  idle_since_ns_[static_cast<size_t>(r)].reset();
  steps_.emplace(id, RunningStep{std::move(plan), load_.target, staged, step.candidate_offsets});
  rank.start({id, std::move(step)});
}

void Dispatcher::finish(uint64_t id, Outcome outcome) {
  const auto found = requests_.find(id);
  ZP_CHECK(found != requests_.end(), "request {} has its outcome twice", id);
  const Callback callback = std::move(found->second.callback);
  const uint64_t bytes = found->second.bytes();
  requests_.erase(found);
  {
    const std::lock_guard lock(mutex_);
    if (const auto* answer = std::get_if<Answer>(&outcome)) {
      ++stats_.answered;
      stats_.prompt_tokens += answer->prompt_tokens;
      stats_.cached_tokens += answer->cached_tokens;
      stats_.computed_tokens += answer->prompt_tokens - answer->cached_tokens;
    } else {
      ++stats_.failed;
    }
  }
  callback(id, std::move(outcome));
  {
    // Only now: drain() promises that every callback has been called.
    const std::lock_guard lock(mutex_);
    --unanswered_;
    unanswered_bytes_ -= bytes;
  }
  changed_.notify_all();
}

void Dispatcher::fail_all(const Failure& failure) {
  while (!requests_.empty()) finish(requests_.begin()->first, failure);
}

}  // namespace zp
