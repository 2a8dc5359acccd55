// Moves requests from the workload to schedulers, and steps from schedulers to ranks.
#include "zp/simulate/fleet.h"

#include <algorithm>
#include <utility>

#include "zp/base/check.h"

namespace zp {
namespace {

constexpr std::string_view kNamespace = "simulation";

}  // namespace

void VirtualClock::advance_to(int64_t ns) {
  ZP_CHECK(ns >= now_, "time runs from {} ns back to {} ns", now_, ns);
  now_ = ns;
}

Fleet::Fleet(const FleetSpec& spec, const Workload& workload)
    : spec_(spec), workload_(workload), policy_(make_policy(spec.policy)), ranks_(spec.config.pool_blocks.size()) {
  ZP_CHECK(policy_ != nullptr, "there is no policy {}", spec.policy);
  if (policy_->time() == RouteTime::kWhenPlanned) {
    lanes_.push_back(
        {.scheduler = std::make_unique<Scheduler>(spec.config, spec.shape, clock_, make_policy(spec.policy))});
    return;
  }
  for (const int32_t blocks : spec.config.pool_blocks) {
    SchedulerConfig config = spec.config;
    config.pool_blocks = {blocks};
    lanes_.push_back({.scheduler = std::make_unique<Scheduler>(config, spec.shape, clock_, make_policy(spec.policy))});
  }
}

void Fleet::plan() {
  take_arrivals();
  if (lanes_.size() == 1 && ranks() > kPlannedAlone) {
    give_steps(0);
    give_steps(1);
    return;
  }
  // As the engine's dispatcher does.
  for (int32_t r = 0; r < ranks(); ++r) {
    const Rank& rank = ranks_[static_cast<size_t>(r)];
    while (std::cmp_less(rank.steps.size(), kStepsPerRank)) {
      Lane& lane = lane_of(r);
      top_up(lane);
      std::optional<StepPlan> plan = lane.scheduler->next_step(rank_in_lane(r), fill_for(rank));
      if (!plan) break;
      take_step(r, *std::move(plan));
    }
  }
}

// Those that have so many steps get one more.
void Fleet::give_steps(size_t steps) {
  std::vector<int32_t> group;
  for (int32_t r = 0; r < ranks(); ++r)
    if (ranks_[static_cast<size_t>(r)].steps.size() == steps) group.push_back(r);
  if (group.empty()) return;
  top_up(lanes_.front());
  const StepFill fill = steps == 0 ? StepFill::kAny : StepFill::kFullOnly;
  for (StepPlan& plan : lanes_.front().scheduler->next_steps(group, fill)) {
    const int32_t r = plan.rank;
    take_step(r, std::move(plan));
  }
}

// An idle rank takes whatever there is; a busy one waits for a step worth staging.
StepFill Fleet::fill_for(const Rank& rank) { return rank.steps.empty() ? StepFill::kAny : StepFill::kFullOnly; }

void Fleet::take_step(int32_t r, StepPlan plan) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const bool idle = rank.steps.empty();
  lane_of(r).queued -= static_cast<int64_t>(plan.segments.size());
  rank.steps.push_back({.plan = std::move(plan)});
  rank.steps.back().time = step_time(spec_.step, rank.steps.back().plan.cost);
  if (idle) start(rank);
}

std::optional<int64_t> Fleet::next_event_ns() const {
  std::optional<int64_t> next;
  if (arrived_ < workload_.requests.size()) next = workload_.requests[arrived_].arrival_ns;
  for (const Rank& rank : ranks_)
    if (!rank.steps.empty()) next = std::min(next.value_or(INT64_MAX), rank.steps.front().end_ns);
  return next;
}

int64_t Fleet::evictions() const {
  int64_t sum = 0;
  for (const Lane& lane : lanes_) sum += lane.scheduler->stats().evictions;
  return sum;
}

void Fleet::take_arrivals() {
  for (; arrived_ < workload_.requests.size() && workload_.requests[arrived_].arrival_ns <= now_ns(); ++arrived_)
    lanes_[lane_for(arrived_)].backlog.push_back(arrived_);
}

size_t Fleet::lane_for(size_t request) {
  if (lanes_.size() == 1 && policy_->time() == RouteTime::kWhenPlanned) return 0;
  std::vector<RankChoice> choices;
  choices.reserve(ranks_.size());
  for (size_t r = 0; r < ranks_.size(); ++r)
    choices.push_back({.rank = static_cast<int32_t>(r),
                       .eligible = true,
                       .waiting = ranks_[r].waiting,
                       .running = ranks_[r].running,
                       .tokens = ranks_[r].tokens});
  const int64_t tokens = workload_.requests[request].tokens();
  const auto chosen =
      static_cast<size_t>(policy_->choose({.sequence = request, .tokens = tokens, .uncached_tokens = tokens}, choices));
  ++ranks_[chosen].waiting;
  ranks_[chosen].tokens += tokens;
  return chosen;
}

// A plan looks at `look_ahead` requests and asks whether there are more.
void Fleet::top_up(Lane& lane) {
  while (!lane.backlog.empty() && lane.queued <= spec_.config.look_ahead) {
    ++lane.queued;
    const size_t index = lane.backlog.front();
    lane.backlog.pop_front();
    const WorkRequest& work = workload_.requests[index];
    ScheduleRequest request{.id = index + 1,
                            .tokens = work.token_ids(),
                            .cache_namespace = std::string(kNamespace),
                            .chain = {},
                            .deadline_ns = {},
                            .arrival_ns = work.arrival_ns};
    request.chain = BlockChain(kNamespace, request.tokens);
    const SubmitResult result = lane.scheduler->submit(std::move(request));
    ZP_CHECK(result == SubmitResult::kAccepted, "request {} was refused: {}", index, static_cast<int>(result));
  }
}

void Fleet::start(Rank& rank) {
  FleetStep& step = rank.steps.front();
  step.start_ns = now_ns();
  step.end_ns = step.start_ns + step.time.total_ns();
  const auto requests = static_cast<int64_t>(step.plan.segments.size());
  if (policy_->time() == RouteTime::kOnArrival) rank.waiting -= requests;
  rank.running += requests;
}

std::optional<FleetStep> Fleet::take_finished(int32_t r) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  if (rank.steps.empty() || rank.steps.front().end_ns > now_ns()) return std::nullopt;
  FleetStep step = std::move(rank.steps.front());
  rank.steps.pop_front();
  step.plan.rank = r;
  lane_of(r).scheduler->finish_step(step.plan.id, StepOutcome::kDone);
  rank.running -= static_cast<int64_t>(step.plan.segments.size());
  if (policy_->time() == RouteTime::kOnArrival)
    for (const Segment& segment : step.plan.segments) rank.tokens -= segment.end;
  if (!rank.steps.empty()) start(rank);
  return step;
}

}  // namespace zp
