// The group's thread.
#include "zp/engine/lockstep_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "zp/base/error.h"
#include "zp/cache/block_hash.h"
#include "zp/parallel/rounds.h"
#include "zp/parallel/step_parts.h"

namespace zp {
namespace {

// A rank whose step comes this much later than another's still runs with it. The scheduling thread hands out the steps
// of all ranks one after another, so this is only about the very first ones; no result depends on it.
constexpr std::chrono::milliseconds kGrace{2};

// Micro-batches a stage: with m of them and P stages, a stage idles for P - 1 of m + P - 1 turns.
constexpr int32_t kMicroBatchesPerStage = 2;

}  // namespace

// A runner hands its steps to the group.
class LockstepGroup::Runner final : public StepRunner {
 public:
  Runner(LockstepGroup& group, int32_t index) : group_(group), index_(index) {}
  ~Runner() override { group_.detach(index_); }

  void start(StepWork work) override { group_.start(index_, std::move(work)); }
  [[nodiscard]] Description description() const override { return group_.description(); }

 private:
  LockstepGroup& group_;
  const int32_t index_;
};

LockstepGroup::LockstepGroup(const GroupSpec& spec, const WeightSource& source, const Clock& clock)
    : layout_(spec.layout), chunk_tokens_(spec.rank.limits.chunk_tokens), clock_(clock), pool_(spec.layout.ranks) {
  if (const auto found = problems(source.shape(), layout_); !found.empty())
    fail(ErrorCode::kInvalidArgument, "{}", fmt::join(found, "; "));
  auto collectives = make_collectives(
      {.kind = spec.rank.device.kind, .ranks = layout_.ranks, .layers = source.shape().layers, .pace = spec.pace});
  for (int32_t rank = 0; rank < layout_.ranks; ++rank) {
    GroupSpec own = spec;
    own.rank.device.index = rank;
    members_.push_back(std::make_unique<GroupMember>(own, source, std::move(collectives[static_cast<size_t>(rank)])));
  }
  inboxes_.resize(static_cast<size_t>(runner_count(layout_)));
  thread_ = std::thread([this] { run(); });
}

LockstepGroup::~LockstepGroup() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (const auto& member : members_) member->close();
}

std::unique_ptr<StepRunner> LockstepGroup::make_runner(int32_t index, StepRunner::Report report) {
  {
    const std::lock_guard lock(mutex_);
    inboxes_.at(static_cast<size_t>(index)).report = std::move(report);
  }
  return std::make_unique<Runner>(*this, index);
}

void LockstepGroup::start(int32_t index, StepWork work) {
  {
    std::unique_lock lock(mutex_);
    Inbox& inbox = inboxes_[static_cast<size_t>(index)];
    changed_.wait(lock, [&] { return inbox.waiting.size() < kQueuedSteps; });
    inbox.waiting.push_back(std::move(work));
  }
  changed_.notify_all();
}

// Runs what was started, as ~Rank() does.
void LockstepGroup::detach(int32_t index) {
  std::unique_lock lock(mutex_);
  Inbox& inbox = inboxes_[static_cast<size_t>(index)];
  changed_.wait(lock, [&] { return inbox.waiting.empty() && !inbox.running; });
}

StepRunner::Description LockstepGroup::description() const {
  return {.device = fmt::format("{} x {}", layout_.ranks, members_.front()->device_description()),
          .operations = std::string(members_.front()->operations()),
          .experts = fmt::format("{} over {} ranks", to_string(layout_.strategy), layout_.ranks)};
}

std::optional<LockstepGroup::Round> LockstepGroup::next_round() {
  std::unique_lock lock(mutex_);
  const auto any = [&] { return std::ranges::any_of(inboxes_, [](const Inbox& i) { return !i.waiting.empty(); }); };
  const auto all = [&] { return std::ranges::all_of(inboxes_, [](const Inbox& i) { return !i.waiting.empty(); }); };
  changed_.wait(lock, [&] { return any() || stopping_; });
  if (!any()) return std::nullopt;
  changed_.wait_for(lock, kGrace, [&] { return all() || stopping_; });
  Round round(inboxes_.size());
  for (size_t i = 0; i < inboxes_.size(); ++i) {
    Inbox& inbox = inboxes_[i];
    if (inbox.waiting.empty()) continue;
    round[i] = std::move(inbox.waiting.front());
    inbox.waiting.pop_front();
    inbox.running = true;
  }
  return round;
}

void LockstepGroup::run() {
  std::exception_ptr failure;
  while (std::optional<Round> round = next_round()) {
    changed_.notify_all();  // start() may have waited for room
    std::vector<ForwardResult> results(round->size());
    const int64_t begin_ns = clock_.now_ns();
    if (!failure) {
      try {
        results = run_round(*round);
      } catch (...) {
        failure = std::current_exception();
      }
    }
    const double seconds = static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9;
    for (size_t i = 0; i < round->size(); ++i) {
      if (!(*round)[i]) continue;
      StepReport report;
      report.id = (*round)[i]->id;
      report.result = std::move(results[i]);
      report.failure = failure;
      report.seconds = seconds;
      report.reported_ns = clock_.now_ns();
      inboxes_[i].report(std::move(report));
      const std::lock_guard lock(mutex_);
      inboxes_[i].running = false;
    }
    changed_.notify_all();
  }
}

std::vector<ForwardResult> LockstepGroup::run_round(const Round& round) {
  if (layout_.attention_is_dp()) return run_own_steps(round);
  std::vector<ForwardResult> results;
  results.push_back(layout_.is_pipeline() ? run_pipeline(round.front()->step) : run_shared_step(round.front()->step));
  return results;
}

// Every rank its own step; those without one take part with an empty one.
std::vector<ForwardResult> LockstepGroup::run_own_steps(const Round& round) {
  ForwardStep none;
  none.candidate_offsets.push_back(0);
  std::vector<int64_t> tokens;
  for (const auto& own : round) tokens.push_back(own ? static_cast<int64_t>(own->step.ids.size()) : 0);
  std::vector<GroupMember::Work> work;
  for (const auto& own : round) work.push_back({.steps = {own ? &own->step : &none}, .tokens = tokens});
  std::vector<ForwardResult> results;
  for (std::vector<ForwardResult>& of_member : run_members(work)) results.push_back(std::move(of_member.front()));
  return results;
}

// The same step on every rank, each with its share of the head rows.
ForwardResult LockstepGroup::run_shared_step(const ForwardStep& step) {
  const std::vector<int64_t> tokens(members_.size(), static_cast<int64_t>(step.ids.size()));
  const std::vector<int32_t> owners =
      row_owners({.layout = layout_, .rank = 0, .tokens = tokens, .chunk_tokens = chunk_tokens_});
  const std::vector<HeadPart> heads = split_heads(step, owners, layout_.ranks);
  std::vector<ForwardStep> steps;
  for (const HeadPart& part : heads) steps.push_back(with_heads(step, part));
  std::vector<GroupMember::Work> work;
  for (const ForwardStep& own : steps) work.push_back({.steps = {&own}, .tokens = tokens});
  const auto results = run_members(work);
  ForwardResult whole;
  for (size_t r = 0; r < results.size(); ++r) merge_heads(step, heads[r], results[r].front(), whole);
  return whole;
}

ForwardResult LockstepGroup::run_pipeline(const ForwardStep& step) {
  const std::vector<MicroBatch> batches = split_step(step, kMicroBatchesPerStage * layout_.ranks, kBlockTokens);
  GroupMember::Work all;
  for (const MicroBatch& batch : batches) all.steps.push_back(&batch.step);
  const auto results = run_members(std::vector<GroupMember::Work>(members_.size(), all));
  ForwardResult whole;
  for (size_t i = 0; i < batches.size(); ++i) merge_heads(step, batches[i].heads, results.back()[i], whole);
  return whole;
}

// Each member on a thread of its own. A failure is thrown when all have ended: the others fail with its cause.
std::vector<std::vector<ForwardResult>> LockstepGroup::run_members(const std::vector<GroupMember::Work>& work) {
  std::vector<std::vector<ForwardResult>> results(members_.size());
  pool_.parallel_for(std::ssize(members_), [&](int64_t rank, int32_t /*thread*/) {
    const auto index = static_cast<size_t>(rank);
    results[index] = members_[index]->run(work[index]);
  });
  return results;
}

void LockstepGroup::abort(int32_t rank, const std::exception_ptr& cause) noexcept {
  members_[static_cast<size_t>(rank)]->abort(cause);
}

GroupStats LockstepGroup::stats() const {
  GroupStats stats;
  stats.strategy = std::string(to_string(layout_.strategy));
  stats.ranks = layout_.ranks;
  for (const auto& member : members_) {
    const TrafficLog& log = member->collectives().traffic();
    const TrafficCount moved = log.total(TrafficUse::kActivations);
    const TrafficCount control = log.total(TrafficUse::kControl);
    stats.layers = log.layers();
    stats.devices.push_back({.sent_bytes = moved.bytes.sent,
                             .received_bytes = moved.bytes.received,
                             .control_bytes = control.bytes.sent + control.bytes.received,
                             .collective_seconds = static_cast<double>(moved.total_ns + control.total_ns) * 1e-9,
                             .wait_seconds = static_cast<double>(moved.wait_ns + control.wait_ns) * 1e-9});
  }
  return stats;
}

}  // namespace zp
