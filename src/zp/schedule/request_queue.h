// The requests that wait, in the order in which they should be looked at.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "zp/cache/block_tree.h"
#include "zp/schedule/request.h"
#include "zp/schedule/waiting_order.h"

namespace zp {

/// A request and what the scheduler notes about it, from submit until it leaves.
struct QueuedRequest {
  ScheduleRequest request;
  std::vector<NodeId> path;  ///< its whole blocks in the index; empty until first looked at
  bool interned = false;     ///< `path` is valid, and has its references
  bool cancelled = false;    ///< only while it is in a step
  uint64_t sequence = 0;     ///< order of arrival
  uint64_t left_before = 0;  ///< how many had left the queue, and
  uint64_t ahead = 0;        ///< how many were waiting, when it arrived

  [[nodiscard]] int64_t tokens() const noexcept { return static_cast<int64_t>(request.tokens.size()); }
  /// Its deadline is before `limit_ns`, or at it.
  [[nodiscard]] bool presses(int64_t limit_ns) const noexcept {
    return request.deadline_ns.has_value() && *request.deadline_ns <= limit_ns;
  }
};

/// As the queue holds it; nothing is known of its match.
[[nodiscard]] Waiting glance(QueuedRequest& request);

/// What the order depends on besides the requests, and how far it is wanted.
struct QueueView {
  int64_t pressing_ns = 0;  ///< deadlines up to here press
  int32_t look_ahead = 0;
  int32_t bypass_max = 0;
};

/// Invariant: every request is in each of the orders that apply to it, exactly once. Order: first the oldest request,
/// if bypass_max younger ones have left before it; then higher priorities first; within a priority pressing deadlines,
/// earliest first, then arrival. Not thread-safe; owned by the scheduler's thread.
class RequestQueue final {
 public:
  /// Takes a new request, or one whose step was recalled: that one keeps its place.
  void push(std::unique_ptr<QueuedRequest> request);
  /// Takes a waiting request out; null if there is none of this id.
  [[nodiscard]] std::unique_ptr<QueuedRequest> remove(uint64_t id);

  /// Null if no request of this id waits.
  [[nodiscard]] QueuedRequest* find(uint64_t id) const;
  [[nodiscard]] int32_t size() const noexcept { return static_cast<int32_t>(requests_.size()); }
  /// How many younger requests have left the queue before the oldest one that waits; 0 when nothing waits.
  [[nodiscard]] uint64_t bypassed() const;
  /// The first `look_ahead` requests in order.
  [[nodiscard]] std::vector<QueuedRequest*> window(const QueueView& view);
  /// Calls `use(waiting)` for each request in order, whatever view.look_ahead is, until it returns false.
  template <typename Use>
  void visit(const QueueView& view, Use&& use);
  /// The request's blocks are not in the index any more.
  void forget_match(QueuedRequest& request);

  /// Calls `use(request, entries)` for each request, with its entries in the orders. For checks.
  template <typename Use>
  void for_each(Use&& use) const {
    for (const auto& [id, request] : requests_) {
      std::vector<const Waiting*> entries = {arrivals_.find(glance(*request))};
      if (request->request.deadline_ns) entries.push_back(deadlines_.find(glance(*request)));
      use(std::as_const(*request), std::span<const Waiting* const>(entries));
    }
  }

  void check_invariants() const;

 private:
  std::unordered_map<uint64_t, std::unique_ptr<QueuedRequest>> requests_;  ///< by id
  std::map<uint64_t, QueuedRequest*> sequences_;
  WaitingOrder arrivals_{WaitingOrder::By::kArrival};
  WaitingOrder deadlines_{WaitingOrder::By::kDeadline};  ///< those that have one
  uint64_t next_sequence_ = 1;
  uint64_t left_ = 0;
};

template <typename Use>
void RequestQueue::visit(const QueueView& view, Use&& use) {
  if (requests_.empty()) return;
  QueuedRequest* starved = nullptr;
  if (bypassed() >= static_cast<uint64_t>(view.bypass_max)) {
    starved = sequences_.begin()->second;
    if (!use(*arrivals_.find(glance(*starved)))) return;
  }
  std::optional<int32_t> priority;
  bool goes_on = true;
  arrivals_.visit_from(std::numeric_limits<int32_t>::max(), [&](Waiting& next) {
    if (priority != next.priority) {
      priority = next.priority;
      deadlines_.visit_from(*priority, [&](Waiting& pressing) {
        if (pressing.priority != *priority || !pressing.presses(view.pressing_ns)) return false;
        goes_on = pressing.request == starved || use(pressing);
        return goes_on;
      });
    }
    if (goes_on && next.request != starved && !next.presses(view.pressing_ns)) goes_on = use(next);
    return goes_on;
  });
}

}  // namespace zp
