// Decides which requests run on which rank in which step, and what each reuses. Holds all scheduling state.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "zp/base/clock.h"
#include "zp/cache/prefix_index.h"
#include "zp/schedule/config.h"
#include "zp/schedule/planner.h"
#include "zp/schedule/policy.h"
#include "zp/schedule/request.h"
#include "zp/schedule/request_queue.h"
#include "zp/schedule/step_plan.h"

namespace zp {

enum class StepOutcome : uint8_t {
  kDone,    ///< every kept block is in the pool
  kFailed,  ///< nothing that the step promised can be relied on
};

/// Whether a rank that is still busy gets a step that could be filled further.
enum class StepFill : uint8_t {
  kAny,       ///< whatever waits
  kRest,      ///< whatever waits, planned for idle ranks alone: what a plan for all would rather have on a busy one
  kFullOnly,  ///< a rank with an unfinished step gets its next one only when waiting for more would not fill it further
};

/// Counts since the start, unless said otherwise.
struct SchedulerStats {
  int32_t queued = 0;    ///< waiting now
  int32_t in_steps = 0;  ///< in unfinished steps now
  int64_t steps = 0;     ///< handed out, recalled ones not counted
  int64_t requests_done = 0;
  int64_t requests_failed = 0;
  int64_t requests_cancelled = 0;
  int64_t hit_tokens = 0;       ///< reused, in steps handed out and not recalled
  int64_t computed_tokens = 0;  ///< computed, likewise
  int64_t evictions = 0;        ///< blocks, all ranks
  std::vector<double> load;     ///< [ranks] of the unfinished steps now
};

/// Steps that a rank may have at once: one running, one staged.
inline constexpr int32_t kStepsPerRank = 2;

/// Invariants: a request waits in the queue or is in exactly one unfinished step; the blocks of at most look_ahead
/// waiting requests are in the index; blocks that an unfinished step reads
/// or makes are pinned; a block is pending exactly while the step that makes it is unfinished. One thread owns a
/// Scheduler; no call blocks, and none does I/O.
///
/// The loop of who runs ranks (Router): submit() what arrives; next_steps() for the ranks without a step, then for
/// those with fewer than kStepsPerRank; finish_step() each step in the order of its rank.
class Scheduler final {
 public:
  /// `config` must be valid (validate()); `clock` must outlive this. No policy: PrefixSaturationPolicy.
  Scheduler(SchedulerConfig config, const ModelShape& shape, const Clock& clock,
            std::unique_ptr<const RoutePolicy> policy = nullptr);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  [[nodiscard]] SubmitResult submit(ScheduleRequest request);
  /// Takes over a request that another scheduler of the same limits accepted: it waits here even beyond queue_max.
  /// Requires an id that no request here has.
  void take_over(ScheduleRequest request);
  CancelResult cancel(uint64_t request);

  /// The next step for `rank`: plans all ranks that have room, so that each request goes where it is best, and hands
  /// out this rank's step. Empty: nothing waits for this rank, or it already has kStepsPerRank steps.
  [[nodiscard]] std::optional<StepPlan> next_step(int32_t rank, StepFill fill = StepFill::kAny);
  /// The next steps of several ranks from one plan, in the order of `ranks`; a rank that would get none has none. For
  /// many ranks at once: a plan takes time for each rank that has room, so one plan a rank takes the square of it.
  [[nodiscard]] std::vector<StepPlan> next_steps(std::span<const int32_t> ranks, StepFill fill = StepFill::kAny);

  /// Ends the oldest unfinished step of a rank: its requests leave. After kFailed, the steps that relied on it are
  /// recalled, and their ids returned: they must not run (or their results be dropped), and their requests wait again
  /// in their old places. A step handed out by this object, each once, in the order of its rank.
  std::vector<uint64_t> finish_step(uint64_t step, StepOutcome outcome);
  /// Takes back a step that has not started; it must be the last of its rank. Its requests wait again, cancelled ones
  /// leave. For a staged step whose requests were cancelled, or that could be planned better.
  void recall_step(uint64_t step);

  /// The rank runs nothing any more. Its unfinished steps are recalled and their ids returned; their requests wait
  /// again in their old places, cancelled ones leave. It gets no further step.
  std::vector<uint64_t> retire_rank(int32_t rank);

  /// All requests that wait leave, in order of arrival: they are somebody else's from now on.
  [[nodiscard]] std::vector<ScheduleRequest> take_waiting();

  /// Steps planned from now on are measured and filled by this rule (rates and the saturation threshold move while the
  /// engine runs). It must be valid.
  void set_load(LoadRule load);

  [[nodiscard]] int32_t queued() const noexcept { return queue_.size(); }
  [[nodiscard]] SchedulerStats stats() const;
  [[nodiscard]] const PrefixIndex& index() const noexcept { return index_; }
  /// Aborts when an invariant does not hold. O(everything).
  void check_invariants() const;

 private:
  struct SegmentRecord {
    std::unique_ptr<QueuedRequest> request{};
    std::vector<NodeId> pinned{};  ///< the start of its path that this segment pins
    int32_t made = 0;              ///< how many of those, at the end, this segment promised
  };
  struct StepRecord {
    uint64_t id = 0;
    double load = 0;
    int64_t tokens = 0;
    int64_t hit_tokens = 0;
    std::optional<uint64_t> relies_on{};
    std::vector<SegmentRecord> segments{};
  };

  /// How fast a rank gets through its steps.
  struct Pace {
    int64_t began_ns = 0;    ///< when the oldest unfinished step was handed out, or the one before it ended
    double load_per_ns = 0;  ///< of its last step that was done; 0: none was
  };

  [[nodiscard]] std::vector<RankView> rank_views(StepFill fill) const;
  [[nodiscard]] BatchPlan plan(std::span<const Waiting* const> window, std::span<const RankView> ranks,
                               StepFill fill) const;
  [[nodiscard]] StepPlan commit(const PlannedStep& planned);
  SegmentRecord commit_segment(const PlannedSegment& planned, int32_t pinned, int32_t rank, StepPlan& step);
  void push(ScheduleRequest request);
  std::vector<const Waiting*> look_ahead(std::span<const RankView> ranks);
  void intern(QueuedRequest& request);
  void forget_path(QueuedRequest& request);
  void unwind(int32_t rank, StepRecord& step, StepOutcome outcome);
  void leave(const QueuedRequest& request, StepOutcome outcome);
  [[nodiscard]] int64_t pressing_ns() const;
  void check_waiting() const;

  SchedulerConfig config_;
  CostModel cost_;
  const Clock& clock_;
  std::unique_ptr<const RoutePolicy> policy_;
  PrefixIndex index_;
  RequestQueue queue_;
  std::vector<std::deque<StepRecord>> steps_;             ///< [ranks] unfinished, in order
  std::vector<Pace> paces_;                               ///< [ranks]
  double load_per_ns_ = 0;                                ///< of the last step that any rank was done with
  std::vector<bool> retired_;                             ///< [ranks]
  std::unordered_map<uint64_t, int32_t> rank_of_step_;    ///< unfinished steps
  std::unordered_map<uint64_t, QueuedRequest*> in_step_;  ///< requests in unfinished steps, by id
  int32_t interned_ = 0;                                  ///< waiting requests whose paths are in the index
  bool arrived_since_step_ = false;                       ///< a request, since the last step was handed out
  uint64_t next_step_ = 1;
  SchedulerStats counts_;  ///< the parts that only grow
};

}  // namespace zp
