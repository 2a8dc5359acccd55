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
    : spec_(spec),
      workload_(workload),
      router_(spec.config, spec.shape, clock_, spec.policy),
      backlogs_(static_cast<size_t>(router_.lanes())),
      ranks_(spec.config.pool_blocks.size()),
      timelines_(ranks_.size(), RankTimeline(spec.step)) {}

// As the engine's dispatcher does.
void Fleet::plan() {
  take_arrivals();
  top_up();
  take_steps(router_.steps_for_idle());
  top_up();
  take_steps(router_.steps_for_busy());
  top_up();
  take_steps(router_.steps_for_rest());
}

void Fleet::take_steps(std::vector<StepPlan> plans) {
  for (StepPlan& plan : plans) {
    const int32_t rank = plan.rank;
    std::deque<FleetStep>& steps = ranks_[static_cast<size_t>(rank)];
    steps.push_back({.plan = std::move(plan)});
    if (steps.size() == 1) start(rank);
  }
}

std::optional<int64_t> Fleet::next_event_ns() const {
  std::optional<int64_t> next;
  if (arrived_ < workload_.requests.size()) next = workload_.requests[arrived_].arrival_ns;
  for (const std::deque<FleetStep>& steps : ranks_)
    if (!steps.empty()) next = std::min(next.value_or(INT64_MAX), steps.front().end_ns);
  return next;
}

void Fleet::take_arrivals() {
  for (; arrived_ < workload_.requests.size() && workload_.requests[arrived_].arrival_ns <= now_ns(); ++arrived_)
    backlogs_[static_cast<size_t>(router_.assign(workload_.requests[arrived_].tokens()))].push_back(arrived_);
}

// A plan looks at `look_ahead` requests and asks whether there are more.
void Fleet::top_up() {
  for (int32_t lane = 0; lane < router_.lanes(); ++lane) {
    std::deque<size_t>& backlog = backlogs_[static_cast<size_t>(lane)];
    while (!backlog.empty() && router_.queued(lane) <= spec_.config.look_ahead) {
      const size_t index = backlog.front();
      backlog.pop_front();
      const WorkRequest& work = workload_.requests[index];
      ScheduleRequest request{.id = index + 1,
                              .tokens = work.token_ids(),
                              .cache_namespace = std::string(kNamespace),
                              .chain = {},
                              .deadline_ns = {},
                              .arrival_ns = work.arrival_ns};
      request.chain = BlockChain(kNamespace, request.tokens);
      const SubmitResult result = router_.submit(lane, std::move(request));
      ZP_CHECK(result == SubmitResult::kAccepted, "request {} was refused: {}", index, static_cast<int>(result));
    }
  }
}

void Fleet::start(int32_t rank) {
  FleetStep& step = ranks_[static_cast<size_t>(rank)].front();
  step.start_ns = now_ns();
  step.time = timelines_[static_cast<size_t>(rank)].run(step.start_ns, step.plan.cost, std::ssize(step.plan.segments));
  step.end_ns = step.start_ns + step.time.total_ns();
}

std::optional<FleetStep> Fleet::take_finished(int32_t rank) {
  std::deque<FleetStep>& steps = ranks_[static_cast<size_t>(rank)];
  if (steps.empty() || steps.front().end_ns > now_ns()) return std::nullopt;
  FleetStep step = std::move(steps.front());
  steps.pop_front();
  router_.finish_step(step.plan.id, StepOutcome::kDone);
  if (!steps.empty()) start(rank);
  return step;
}

}  // namespace zp
