// Lanes, and who belongs to which.
#include "zp/schedule/router.h"

#include <algorithm>
#include <utility>

#include "zp/base/check.h"

namespace zp {

Router::Router(const SchedulerConfig& config, const ModelShape& shape, const Clock& clock, std::string_view policy)
    : policy_(make_policy(policy)), ranks_(config.pool_blocks.size()) {
  ZP_CHECK(policy_ != nullptr, "there is no policy {}", policy);
  if (policy_->time() == RouteTime::kWhenPlanned) {
    lanes_.push_back({std::make_unique<Scheduler>(config, shape, clock, make_policy(policy))});
    return;
  }
  for (const int32_t blocks : config.pool_blocks) {
    SchedulerConfig own = config;
    own.pool_blocks = {blocks};
    lanes_.push_back({std::make_unique<Scheduler>(own, shape, clock, make_policy(policy))});
  }
}

int32_t Router::assign(int64_t tokens) {
  const uint64_t sequence = arrived_++;
  if (policy_->time() == RouteTime::kWhenPlanned) return 0;
  std::vector<RankChoice> choices;
  choices.reserve(ranks_.size());
  for (int32_t r = 0; r < ranks(); ++r) {
    const Rank& rank = at(r);
    const int64_t running = rank.steps.empty() ? 0 : std::ssize(rank.steps.front().requests);
    choices.push_back({.rank = r,
                       .eligible = !rank.retired,
                       .waiting = rank.requests - running,
                       .running = running,
                       .tokens = rank.tokens});
  }
  const int32_t chosen = policy_->choose({.sequence = sequence, .tokens = tokens, .uncached_tokens = tokens}, choices);
  ZP_CHECK(chosen >= 0, "a request arrives when every rank is retired");
  ++at(chosen).requests;
  at(chosen).tokens += tokens;
  return chosen;
}

SubmitResult Router::submit(int32_t lane, ScheduleRequest request) {
  const uint64_t id = request.id;
  const auto tokens = std::ssize(request.tokens);
  const SubmitResult result =
      requests_.contains(id) ? SubmitResult::kDuplicateId : scheduler_of(lane).submit(std::move(request));
  if (result == SubmitResult::kAccepted) {
    requests_.emplace(id, Held{.lane = lane, .tokens = tokens});
  } else if (policy_->time() == RouteTime::kOnArrival) {
    --at(lane).requests;
    at(lane).tokens -= tokens;
  }
  return result;
}

SubmitResult Router::submit(ScheduleRequest request) {
  const int32_t lane = assign(std::ssize(request.tokens));
  return submit(lane, std::move(request));
}

CancelResult Router::cancel(uint64_t request) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return CancelResult::kUnknown;
  const CancelResult result = scheduler_of(found->second.lane).cancel(request);
  if (result == CancelResult::kRemoved) forget(request);
  if (result == CancelResult::kInStep) found->second.cancelled = true;
  return result;
}

std::vector<StepPlan> Router::steps_for_idle() { return next_steps(0, StepFill::kAny); }
std::vector<StepPlan> Router::steps_for_rest() {
  if (!rest_waits()) return {};
  return next_steps(0, StepFill::kRest);
}
bool Router::rest_waits() const {
  if (lanes() > 1 || ranks() == 1 || queued(0) == 0) return false;
  return std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.steps.empty() && !rank.retired; });
}
std::vector<StepPlan> Router::steps_for_busy() { return next_steps(1, StepFill::kFullOnly); }

// For the ranks that have so many steps.
std::vector<StepPlan> Router::next_steps(size_t held, StepFill fill) {
  std::vector<StepPlan> plans;
  std::vector<int32_t> group;
  for (int32_t r = 0; r < ranks(); ++r)
    if (at(r).steps.size() == held && !at(r).retired) group.push_back(r);
  if (group.empty()) return plans;
  if (lanes() == 1) {
    plans = scheduler_of(0).next_steps(group, fill);
    for (StepPlan& plan : plans) take_plan(0, plan);
    return plans;
  }
  for (const int32_t r : group) {
    std::optional<StepPlan> plan = scheduler_of(r).next_step(0, fill);
    if (!plan) continue;
    plan->rank = r;
    take_plan(r, *plan);
    plans.push_back(*std::move(plan));
  }
  return plans;
}

void Router::take_plan(int32_t lane, StepPlan& plan) {
  plan.id = outer_id(lane, plan.id);
  if (plan.relies_on) plan.relies_on = outer_id(lane, *plan.relies_on);
  HeldStep step{.id = plan.id};
  for (const Segment& segment : plan.segments) step.requests.push_back(segment.request);
  at(plan.rank).steps.push_back(std::move(step));
  rank_of_step_.emplace(plan.id, plan.rank);
}

std::vector<uint64_t> Router::finish_step(uint64_t step, StepOutcome outcome) {
  const auto found = rank_of_step_.find(step);
  ZP_CHECK(found != rank_of_step_.end(), "step {} is not unfinished", step);
  const int32_t lane = lane_of(found->second);
  std::vector<uint64_t> recalled = scheduler_of(lane).finish_step(inner_id(step), outcome);
  for (uint64_t& id : recalled) {
    id = outer_id(lane, id);
    requeue(remove_step(id));
  }
  for (const uint64_t request : remove_step(step).requests) forget(request);
  return recalled;
}

std::vector<uint64_t> Router::retire_rank(int32_t rank) {
  const int32_t lane = lane_of(rank);
  at(rank).retired = true;
  std::vector<uint64_t> recalled = scheduler_of(lane).retire_rank(lanes() == 1 ? rank : 0);
  for (uint64_t& id : recalled) {
    id = outer_id(lane, id);
    requeue(remove_step(id));
  }
  if (lanes() == 1 || std::ranges::all_of(ranks_, &Rank::retired)) return recalled;
  for (ScheduleRequest& request : scheduler_of(lane).take_waiting()) {
    const uint64_t id = request.id;
    const auto tokens = std::ssize(request.tokens);
    forget(id);
    const int32_t heir = assign(tokens);
    requests_.emplace(id, Held{.lane = heir, .tokens = tokens});
    scheduler_of(heir).take_over(std::move(request));
  }
  return recalled;
}

void Router::set_load(const LoadRule& load) {
  for (const Lane& lane : lanes_) lane.scheduler->set_load(load);
}

int64_t Router::evictions() const {
  int64_t sum = 0;
  for (const Lane& lane : lanes_) sum += lane.scheduler->stats().evictions;
  return sum;
}

Router::HeldStep Router::remove_step(uint64_t step) {
  const auto found = rank_of_step_.find(step);
  ZP_CHECK(found != rank_of_step_.end(), "step {} is not unfinished", step);
  std::deque<HeldStep>& steps = at(found->second).steps;
  rank_of_step_.erase(found);
  const auto held = std::ranges::find(steps, step, &HeldStep::id);
  ZP_CHECK(held != steps.end(), "step {} is filed under the wrong rank", step);
  HeldStep removed = std::move(*held);
  steps.erase(held);
  return removed;
}

// The scheduler has taken the step's requests back, but for those that were cancelled.
void Router::requeue(const HeldStep& step) {
  for (const uint64_t request : step.requests)
    if (requests_.at(request).cancelled) forget(request);
}

void Router::forget(uint64_t request) {
  const auto found = requests_.find(request);
  ZP_CHECK(found != requests_.end(), "request {} leaves twice", request);
  if (policy_->time() == RouteTime::kOnArrival) {
    --at(found->second.lane).requests;
    at(found->second.lane).tokens -= found->second.tokens;
  }
  requests_.erase(found);
}

void Router::check_invariants() const {
  for (const Lane& lane : lanes_) lane.scheduler->check_invariants();
  size_t steps = 0;
  for (const Rank& rank : ranks_) {
    steps += rank.steps.size();
    int64_t running = 0;
    for (const HeldStep& step : rank.steps) running += std::ssize(step.requests);
    ZP_CHECK(policy_->time() == RouteTime::kWhenPlanned || running <= rank.requests,
             "a rank of {} requests has {} in steps", rank.requests, running);
  }
  ZP_CHECK(steps == rank_of_step_.size(), "{} unfinished steps, {} filed", steps, rank_of_step_.size());
}

}  // namespace zp
