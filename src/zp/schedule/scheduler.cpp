// Scheduling state and its changes; the choices are planner.cpp's.
#include "zp/schedule/scheduler.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "zp/base/check.h"

namespace zp {

Scheduler::Scheduler(SchedulerConfig config, const ModelShape& shape, const Clock& clock,
                     std::unique_ptr<const RoutePolicy> policy)
    : config_(std::move(config)),
      cost_(shape),
      clock_(clock),
      policy_(policy != nullptr ? std::move(policy) : std::make_unique<PrefixSaturationPolicy>()),
      index_(config_.pool_blocks),
      steps_(static_cast<size_t>(config_.ranks())),
      paces_(static_cast<size_t>(config_.ranks())),
      retired_(static_cast<size_t>(config_.ranks()), false) {
  const std::vector<std::string> problems = validate(config_);
  ZP_CHECK(problems.empty(), "the configuration was not validated: {}", fmt::join(problems, "; "));
}

Scheduler::~Scheduler() = default;

SubmitResult Scheduler::submit(ScheduleRequest request) {
  if (request.tokens.empty()) return SubmitResult::kEmpty;
  if (static_cast<int64_t>(request.tokens.size()) > config_.max_request_tokens) return SubmitResult::kTooLong;
  if (queue_.find(request.id) != nullptr || in_step_.contains(request.id)) return SubmitResult::kDuplicateId;
  if (queue_.size() >= config_.queue_max) return SubmitResult::kQueueFull;
  push(std::move(request));
  return SubmitResult::kAccepted;
}

void Scheduler::take_over(ScheduleRequest request) {
  const auto tokens = std::ssize(request.tokens);
  ZP_CHECK(tokens >= 1 && tokens <= config_.max_request_tokens, "request {} has {} tokens", request.id, tokens);
  ZP_CHECK(queue_.find(request.id) == nullptr && !in_step_.contains(request.id), "request {} is here", request.id);
  push(std::move(request));
}

void Scheduler::push(ScheduleRequest request) {
  auto queued = std::make_unique<QueuedRequest>();
  queued->request = std::move(request);
  QueuedRequest& waiting = *queued;
  queue_.push(std::move(queued));
  // The next plan looks at it, and would have to find the blocks of all that came meanwhile.
  if (queue_.size() <= config_.look_ahead) intern(waiting);
  arrived_since_step_ = true;
}

CancelResult Scheduler::cancel(uint64_t request) {
  if (const auto found = in_step_.find(request); found != in_step_.end()) {
    found->second->cancelled = true;
    return CancelResult::kInStep;
  }
  const std::unique_ptr<QueuedRequest> removed = queue_.remove(request);
  if (removed == nullptr) return CancelResult::kUnknown;
  forget_path(*removed);
  ++counts_.requests_cancelled;
  return CancelResult::kRemoved;
}

std::optional<StepPlan> Scheduler::next_step(int32_t rank, StepFill fill) {
  std::vector<StepPlan> steps = next_steps(std::span(&rank, 1), fill);
  if (steps.empty()) return std::nullopt;
  return std::move(steps.front());
}

std::vector<StepPlan> Scheduler::next_steps(std::span<const int32_t> ranks, StepFill fill) {
  std::vector<StepPlan> steps;
  const auto has_room = [this](int32_t rank) {
    ZP_CHECK(rank >= 0 && rank < config_.ranks(), "rank {} of {}", rank, config_.ranks());
    return !retired_[static_cast<size_t>(rank)] && steps_[static_cast<size_t>(rank)].size() < kStepsPerRank;
  };
  if (std::ranges::none_of(ranks, has_room) || queue_.size() == 0) return steps;
  const std::vector<RankView> views = rank_views(fill);
  const std::vector<const Waiting*> window = look_ahead(views);
  const BatchPlan batch = plan(window, views, fill);
  for (const int32_t rank : ranks) {
    if (!has_room(rank)) continue;
    const bool busy = !steps_[static_cast<size_t>(rank)].empty();
    const auto planned = std::ranges::lower_bound(batch.steps, rank, {}, &PlannedStep::rank);
    if (planned == batch.steps.end() || planned->rank != rank || planned->segments.empty()) continue;
    if (fill == StepFill::kFullOnly && busy && planned->filled_by == StopReason::kQueueEnded) continue;
    steps.push_back(commit(*planned));
  }
  return steps;
}

std::vector<uint64_t> Scheduler::finish_step(uint64_t step, StepOutcome outcome) {
  const auto found = rank_of_step_.find(step);
  ZP_CHECK(found != rank_of_step_.end(), "step {} is not unfinished", step);
  const int32_t rank = found->second;
  std::deque<StepRecord>& steps = steps_[static_cast<size_t>(rank)];
  ZP_CHECK(steps.front().id == step, "step {} of rank {} ends before step {}", step, rank, steps.front().id);
  std::vector<uint64_t> recalled;
  if (outcome == StepOutcome::kFailed) {
    // Its successor may read blocks that will not come. At most one other step is unfinished, so there is no chain.
    static_assert(kStepsPerRank == 2);
    if (steps.back().relies_on == step) {
      recalled.push_back(steps.back().id);
      recall_step(steps.back().id);
    }
  }
  StepRecord ended = std::move(steps.front());
  steps.pop_front();
  Pace& pace = paces_[static_cast<size_t>(rank)];
  const int64_t now_ns = clock_.now_ns();
  if (outcome == StepOutcome::kDone && now_ns > pace.began_ns)
    load_per_ns_ = pace.load_per_ns = ended.load / static_cast<double>(now_ns - pace.began_ns);
  pace.began_ns = now_ns;
  rank_of_step_.erase(step);
  unwind(rank, ended, outcome);
  for (const SegmentRecord& segment : ended.segments) leave(*segment.request, outcome);
  return recalled;
}

void Scheduler::recall_step(uint64_t step) {
  const auto found = rank_of_step_.find(step);
  ZP_CHECK(found != rank_of_step_.end(), "step {} is not unfinished", step);
  const int32_t rank = found->second;
  std::deque<StepRecord>& steps = steps_[static_cast<size_t>(rank)];
  ZP_CHECK(steps.back().id == step, "step {} of rank {} is recalled before step {}", step, rank, steps.back().id);
  StepRecord recalled = std::move(steps.back());
  steps.pop_back();
  rank_of_step_.erase(found);
  unwind(rank, recalled, StepOutcome::kFailed);
  --counts_.steps;
  counts_.hit_tokens -= recalled.hit_tokens;
  counts_.computed_tokens -= recalled.tokens;
  for (SegmentRecord& segment : recalled.segments) {
    if (segment.request->cancelled) {
      leave(*segment.request, StepOutcome::kFailed);
      continue;
    }
    in_step_.erase(segment.request->request.id);
    queue_.push(std::move(segment.request));
  }
}

std::vector<uint64_t> Scheduler::retire_rank(int32_t rank) {
  ZP_CHECK(rank >= 0 && rank < config_.ranks(), "rank {} of {}", rank, config_.ranks());
  retired_[static_cast<size_t>(rank)] = true;
  std::vector<uint64_t> recalled;
  while (!steps_[static_cast<size_t>(rank)].empty()) {
    recalled.push_back(steps_[static_cast<size_t>(rank)].back().id);
    recall_step(recalled.back());
  }
  return recalled;
}

std::vector<ScheduleRequest> Scheduler::take_waiting() {
  std::vector<QueuedRequest*> waiting =
      queue_.window({.pressing_ns = 0, .look_ahead = queue_.size(), .bypass_max = INT32_MAX});
  std::ranges::sort(waiting, {}, &QueuedRequest::sequence);
  std::vector<ScheduleRequest> taken;
  for (const QueuedRequest* request : waiting) {
    const std::unique_ptr<QueuedRequest> removed = queue_.remove(request->request.id);
    forget_path(*removed);
    taken.push_back(std::move(removed->request));
  }
  return taken;
}

void Scheduler::set_load(LoadRule load) {
  config_.load = std::move(load);
  const std::vector<std::string> problems = validate(config_);
  ZP_CHECK(problems.empty(), "{}", fmt::join(problems, "; "));
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = counts_;
  stats.queued = queue_.size();
  stats.in_steps = static_cast<int32_t>(in_step_.size());
  for (int32_t rank = 0; rank < config_.ranks(); ++rank) {
    stats.evictions += index_.evictions(rank);
    double load = 0;
    for (const StepRecord& step : steps_[static_cast<size_t>(rank)]) load += step.load;
    stats.load.push_back(load);
  }
  return stats;
}

// The requests that the next plan looks at, with their blocks in the index, matched with the open ranks; blocks of
// requests that it no longer looks at (others came first) are forgotten, so that the index stays as small as the
// window. All that was looked at and still waits comes before what never was, but for what came meanwhile: what is to
// be forgotten follows the window closely.
std::vector<const Waiting*> Scheduler::look_ahead(std::span<const RankView> ranks) {
  const RankSet open = open_ranks(ranks);
  const int32_t limit = std::min(config_.look_ahead, queue_.size());
  std::vector<const Waiting*> window;
  window.reserve(static_cast<size_t>(limit));
  queue_.visit({.pressing_ns = pressing_ns(), .look_ahead = limit, .bypass_max = config_.bypass_max},
               [&](Waiting& waiting) {
                 if (std::ssize(window) < limit) {
                   if (!waiting.matched) intern(*waiting.request);
                   update_match(waiting, index_, open);
                   window.push_back(&waiting);
                 } else if (waiting.request->interned) {
                   forget_path(*waiting.request);
                   queue_.forget_match(*waiting.request);
                 }
                 return std::ssize(window) < limit || interned_ > limit;
               });
  return window;
}

void Scheduler::intern(QueuedRequest& request) {
  if (request.interned) return;
  request.path = index_.acquire({.cache_namespace = request.request.cache_namespace,
                                 .tokens = request.request.tokens,
                                 .chain = &request.request.chain});
  request.interned = true;
  ++interned_;
}

void Scheduler::forget_path(QueuedRequest& request) {
  if (!request.interned) return;
  index_.release(request.path);
  request.path.clear();
  request.interned = false;
  --interned_;
}

std::vector<RankView> Scheduler::rank_views(StepFill fill) const {
  const int64_t now_ns = clock_.now_ns();
  const size_t steps_max = fill == StepFill::kRest ? 1 : kStepsPerRank;
  std::vector<RankView> ranks;
  for (size_t rank = 0; rank < steps_.size(); ++rank) {
    const std::deque<StepRecord>& steps = steps_[rank];
    RankView view{.open = !retired_[rank] && steps.size() < steps_max, .retired = retired_[rank]};
    for (const StepRecord& step : steps) {
      const auto requests = static_cast<int64_t>(step.segments.size());
      view.load_unfinished += step.load;
      view.tokens_unfinished += step.tokens + step.hit_tokens;
      (&step == &steps.front() ? view.running_requests : view.staged_requests) += requests;
    }
    if (!steps.empty()) {
      const Pace& pace = paces_[rank];
      const double done =
          (pace.load_per_ns > 0 ? pace.load_per_ns : load_per_ns_) * static_cast<double>(now_ns - pace.began_ns);
      view.load_ahead = view.load_unfinished - std::min(done, steps.front().load);
      view.load_overdue = std::max(0.0, done - steps.front().load);
      view.unfinished_step = steps.back().id;
    }
    ranks.push_back(view);
  }
  return ranks;
}

BatchPlan Scheduler::plan(std::span<const Waiting* const> window, std::span<const RankView> ranks,
                          StepFill fill) const {
  return plan_batch({.window = window,
                     .more_waiting = queue_.size() > static_cast<int32_t>(window.size()),
                     .more_arrive = arrived_since_step_,
                     .first_is_due = queue_.bypassed() >= static_cast<uint64_t>(config_.bypass_max),
                     .rest = fill == StepFill::kRest,
                     .index = &index_,
                     .ranks = ranks,
                     .config = &config_,
                     .cost = &cost_,
                     .policy = policy_.get(),
                     .now_ns = clock_.now_ns(),
                     .pressing_ns = pressing_ns()});
}

StepPlan Scheduler::commit(const PlannedStep& planned) {
  StepRecord record{.id = next_step_++, .load = planned.load, .tokens = planned.tokens, .relies_on = planned.relies_on};
  StepPlan step{.id = record.id,
                .rank = planned.rank,
                .tokens = planned.tokens,
                .load = planned.load,
                .target = planned.target,
                .cost = planned.cost,
                .filled_by = planned.filled_by,
                .relies_on = planned.relies_on};
  // All that is read is pinned before anything is made, so that room for one segment is not taken from another.
  std::vector<int32_t> pinned;
  for (const PlannedSegment& segment : planned.segments) {
    const std::span<const NodeId> path = segment.request->path;
    pinned.push_back(index_.pin(planned.rank, path.first(segment.prefix.size())));
  }
  for (size_t i = 0; i < planned.segments.size(); ++i) {
    record.segments.push_back(commit_segment(planned.segments[i], pinned[i], planned.rank, step));
    step.hit_tokens += planned.segments[i].begin;
  }
  for (const SegmentRecord& segment : record.segments)
    in_step_.emplace(segment.request->request.id, segment.request.get());
  record.hit_tokens = step.hit_tokens;
  counts_.hit_tokens += step.hit_tokens;
  counts_.computed_tokens += step.tokens;
  ++counts_.steps;
  rank_of_step_.emplace(step.id, planned.rank);
  arrived_since_step_ = false;
  std::deque<StepRecord>& steps = steps_[static_cast<size_t>(planned.rank)];
  if (steps.empty()) paces_[static_cast<size_t>(planned.rank)].began_ns = clock_.now_ns();
  steps.push_back(std::move(record));
  return step;
}

// Promises what the segment keeps, and moves its request out of the queue. `pinned` of its first blocks are pinned.
Scheduler::SegmentRecord Scheduler::commit_segment(const PlannedSegment& planned, int32_t pinned, int32_t rank,
                                                   StepPlan& step) {
  SegmentRecord record{.request = queue_.remove(planned.request->request.id)};
  QueuedRequest& request = *record.request;
  const std::span<const NodeId> path = request.path;
  const size_t reused = planned.prefix.size();
  // Blocks that earlier segments of this step promised meanwhile.
  pinned += index_.pin(rank, path.subspan(static_cast<size_t>(pinned), reused - static_cast<size_t>(pinned)));

  Segment segment{.request = request.request.id,
                  .begin = planned.begin,
                  .end = planned.end,
                  .row = planned.row,
                  .prefix = planned.prefix};
  const auto promise = [&](int32_t from, int32_t to, bool wanted) {
    const auto nodes = path.subspan(reused + static_cast<size_t>(from), static_cast<size_t>(to - from));
    for (const BlockId block : index_.promise(rank, nodes, wanted))
      segment.keep.push_back({static_cast<int32_t>(reused + segment.keep.size()), block});
  };
  promise(0, planned.keep_wanted, true);
  promise(planned.keep_wanted, planned.keep, false);
  step.segments.push_back(std::move(segment));

  record.made = planned.keep;
  const auto pins = path.first(static_cast<size_t>(pinned + planned.keep));
  record.pinned.assign(pins.begin(), pins.end());
  // From here on residency keeps the pinned blocks' nodes alive, and nobody needs the others for this request.
  forget_path(request);
  return record;
}

// Takes back everything that a step has in the index, but for the blocks that it has made.
void Scheduler::unwind(int32_t rank, StepRecord& step, StepOutcome outcome) {
  const auto made = [](const SegmentRecord& segment) {
    return std::span(segment.pinned).last(static_cast<size_t>(segment.made));
  };
  if (outcome == StepOutcome::kDone)
    for (const SegmentRecord& segment : step.segments)
      for (const NodeId node : made(segment)) index_.commit(rank, node);
  for (const SegmentRecord& segment : step.segments) index_.unpin(rank, segment.pinned);
  if (outcome == StepOutcome::kDone) return;
  for (size_t i = step.segments.size(); i-- > 0;) {
    const std::span<const NodeId> nodes = made(step.segments[i]);
    for (size_t j = nodes.size(); j-- > 0;) index_.withdraw(rank, nodes[j]);
  }
}

void Scheduler::leave(const QueuedRequest& request, StepOutcome outcome) {
  in_step_.erase(request.request.id);
  if (request.cancelled) {
    ++counts_.requests_cancelled;
  } else {
    ++(outcome == StepOutcome::kDone ? counts_.requests_done : counts_.requests_failed);
  }
}

int64_t Scheduler::pressing_ns() const { return clock_.now_ns() + config_.deadline_slack_ns; }

void Scheduler::check_invariants() const {
  index_.check_invariants();
  queue_.check_invariants();
  check_waiting();
  size_t in_steps = 0;
  size_t unfinished = 0;
  for (int32_t rank = 0; rank < config_.ranks(); ++rank) {
    const std::deque<StepRecord>& steps = steps_[static_cast<size_t>(rank)];
    ZP_CHECK(steps.size() <= kStepsPerRank, "rank {} has {} steps", rank, steps.size());
    unfinished += steps.size();
    int32_t pending = 0;
    for (const StepRecord& step : steps) {
      ZP_CHECK(rank_of_step_.at(step.id) == rank, "step {} is filed under rank {}", step.id, rank_of_step_.at(step.id));
      in_steps += step.segments.size();
      for (const SegmentRecord& segment : step.segments) {
        ZP_CHECK(queue_.find(segment.request->request.id) == nullptr, "request {} waits and is in step {}",
                 segment.request->request.id, step.id);
        ZP_CHECK(in_step_.at(segment.request->request.id) == segment.request.get(), "request {} is filed wrongly",
                 segment.request->request.id);
        for (const NodeId node : segment.pinned)
          ZP_CHECK(index_.pinned(node, rank), "step {} reads node {}, which is not pinned", step.id, node);
        for (const NodeId node : std::span(segment.pinned).last(static_cast<size_t>(segment.made)))
          ZP_CHECK(index_.residency(node, rank) == Residency::kPending, "node {} of step {} is not pending", node,
                   step.id);
        pending += segment.made;
      }
    }
    ZP_CHECK(pending == index_.pending_count(rank), "rank {} expects {} blocks, its steps make {}", rank,
             index_.pending_count(rank), pending);
  }
  ZP_CHECK(in_steps == in_step_.size(), "{} requests in steps, {} filed", in_steps, in_step_.size());
  ZP_CHECK(unfinished == rank_of_step_.size(), "{} unfinished steps, {} filed", unfinished, rank_of_step_.size());
}

// What is kept of requests that wait, against what the index says of each.
void Scheduler::check_waiting() const {
  int32_t interned = 0;
  std::vector<int32_t> resident(static_cast<size_t>(config_.ranks()));
  queue_.for_each([&](const QueuedRequest& request, std::span<const Waiting* const> entries) {
    if (request.interned) ++interned;
    ZP_CHECK(request.interned || request.path.empty(), "request {} has blocks", request.request.id);
    for (const Waiting* waiting : entries) {
      if (!waiting->matched) continue;
      ZP_CHECK(request.interned, "request {} has a match, but no blocks in the index", request.request.id);
      const PathMatch& match = waiting->match;
      const auto reusable = std::span(request.path).first(static_cast<size_t>((request.tokens() - 1) / kBlockTokens));
      const auto blocks = static_cast<size_t>(match.blocks);
      ZP_CHECK(blocks <= reusable.size(), "request {} matches {} of {} blocks", request.request.id, blocks,
               reusable.size());
      ZP_CHECK(match.last == (blocks > 0 ? reusable[blocks - 1] : kNoNode), "request {}: its match ends with node {}",
               request.request.id, match.last);
      ZP_CHECK(match.next == (blocks < reusable.size() ? reusable[blocks] : kNoNode),
               "request {}: node {} comes after its match", request.request.id, match.next);
      index_.match(reusable, resident);
      for (int32_t rank = 0; rank < config_.ranks(); ++rank) {
        RankSet ranks(config_.ranks());
        ranks.add(rank);
        const int32_t length = resident[static_cast<size_t>(rank)];
        ZP_CHECK(index_.holds(match, ranks) == (match.blocks == length), "request {}: {} blocks on rank {}",
                 request.request.id, length, rank);
        ZP_CHECK(index_.longest_match(reusable, ranks, match.blocks).blocks == length,
                 "request {}: {} blocks on rank {}", request.request.id, length, rank);
      }
    }
  });
  ZP_CHECK(interned == interned_, "{} requests that wait are in the index, {} counted", interned, interned_);
  ZP_CHECK(interned <= config_.look_ahead, "{} requests that wait are in the index, of {} looked at", interned,
           config_.look_ahead);
}

}  // namespace zp
