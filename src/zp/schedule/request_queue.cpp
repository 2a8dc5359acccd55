// Four orders over the same requests.
#include "zp/schedule/request_queue.h"

#include <limits>

#include "zp/base/check.h"

namespace zp {
namespace {

int64_t level(const QueuedRequest& request) { return -int64_t{request.request.priority}; }

}  // namespace

void RequestQueue::push(std::unique_ptr<QueuedRequest> request) {
  QueuedRequest& r = *request;
  if (r.sequence == 0) {
    r.sequence = next_sequence_++;
    r.left_before = left_;
    r.ahead = requests_.size();
  } else {
    --left_;  // It had been counted as having left.
  }
  sequences_.emplace(r.sequence, &r);
  arrivals_.emplace(ArrivalKey{level(r), r.sequence}, &r);
  if (r.request.deadline_ns) deadlines_.emplace(DeadlineKey{level(r), *r.request.deadline_ns, r.sequence}, &r);
  const bool added = requests_.emplace(r.request.id, std::move(request)).second;
  ZP_CHECK(added, "request {} waits already", r.request.id);
}

std::unique_ptr<QueuedRequest> RequestQueue::remove(uint64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return nullptr;
  std::unique_ptr<QueuedRequest> request = std::move(found->second);
  requests_.erase(found);
  sequences_.erase(request->sequence);
  arrivals_.erase({level(*request), request->sequence});
  if (request->request.deadline_ns)
    deadlines_.erase({level(*request), *request->request.deadline_ns, request->sequence});
  ++left_;
  return request;
}

QueuedRequest* RequestQueue::find(uint64_t id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second.get();
}

// All that waited when the oldest request arrived have left, since they were older; whoever left besides is younger.
uint64_t RequestQueue::bypassed() const {
  if (sequences_.empty()) return 0;
  const QueuedRequest& oldest = *sequences_.begin()->second;
  return left_ - oldest.left_before - oldest.ahead;
}

std::vector<QueuedRequest*> RequestQueue::window(const QueueView& view) const {
  std::vector<QueuedRequest*> out;
  if (requests_.empty()) return out;
  const auto limit = std::min(static_cast<size_t>(view.look_ahead), requests_.size());
  out.reserve(limit);
  const QueuedRequest* starved = nullptr;
  if (bypassed() >= static_cast<uint64_t>(view.bypass_max)) {
    out.push_back(sequences_.begin()->second);
    starved = out.front();
  }
  for (auto next = arrivals_.begin(); next != arrivals_.end() && out.size() < limit;) {
    const int64_t priority_level = std::get<0>(next->first);
    const DeadlineKey first{priority_level, std::numeric_limits<int64_t>::min(), 0};
    for (auto it = deadlines_.lower_bound(first); it != deadlines_.end() && out.size() < limit; ++it) {
      if (std::get<0>(it->first) != priority_level || !it->second->presses(view.pressing_ns)) break;
      if (it->second != starved) out.push_back(it->second);
    }
    for (; next != arrivals_.end() && std::get<0>(next->first) == priority_level && out.size() < limit; ++next)
      if (next->second != starved && !next->second->presses(view.pressing_ns)) out.push_back(next->second);
  }
  return out;
}

void RequestQueue::check_invariants() const {
  ZP_CHECK(sequences_.size() == requests_.size() && arrivals_.size() == requests_.size(),
           "{} requests, {} in order of age, {} in order of priority", requests_.size(), sequences_.size(),
           arrivals_.size());
  size_t deadlines = 0;
  for (const auto& [id, request] : requests_) {
    ZP_CHECK(request->request.id == id, "request {} is filed under {}", request->request.id, id);
    ZP_CHECK(sequences_.contains(request->sequence), "request {} has no age", id);
    ZP_CHECK(arrivals_.contains({level(*request), request->sequence}), "request {} has no place", id);
    ZP_CHECK(!request->cancelled, "cancelled request {} waits", id);
    if (request->request.deadline_ns) ++deadlines;
  }
  ZP_CHECK(deadlines == deadlines_.size(), "{} deadlines, {} listed", deadlines, deadlines_.size());
  ZP_CHECK(bypassed() <= left_, "the oldest request was passed by {} of {}", bypassed(), left_);
}

}  // namespace zp
