// The requests that wait, in the order in which they should be looked at.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "zp/cache/block_tree.h"
#include "zp/schedule/request.h"

namespace zp {

/// A request and what the scheduler notes about it, from submit until it leaves.
struct QueuedRequest {
  ScheduleRequest request;
  std::vector<NodeId> path;  ///< its whole blocks in the index; empty until first looked at
  bool interned = false;     ///< `path` is valid, and has its references
  uint64_t looked_at = 0;    ///< the last planning pass that saw it
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
  [[nodiscard]] std::vector<QueuedRequest*> window(const QueueView& view) const;

  void check_invariants() const;

 private:
  /// Priorities are negated, in 64 bits, so that the smallest key goes first.
  using ArrivalKey = std::tuple<int64_t, uint64_t>;            ///< -priority, sequence
  using DeadlineKey = std::tuple<int64_t, int64_t, uint64_t>;  ///< -priority, deadline, sequence

  std::unordered_map<uint64_t, std::unique_ptr<QueuedRequest>> requests_;  ///< by id
  std::map<uint64_t, QueuedRequest*> sequences_;
  std::map<ArrivalKey, QueuedRequest*> arrivals_;
  std::map<DeadlineKey, QueuedRequest*> deadlines_;
  uint64_t next_sequence_ = 1;
  uint64_t left_ = 0;
};

}  // namespace zp
