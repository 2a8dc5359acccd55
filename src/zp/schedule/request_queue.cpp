// Four orders over the same requests.
#include "zp/schedule/request_queue.h"

#include <algorithm>

#include "zp/base/check.h"

namespace zp {

Waiting glance(QueuedRequest& request) {
  const ScheduleRequest& r = request.request;
  return {.request = &request,
          .sequence = request.sequence,
          .arrival_ns = r.arrival_ns,
          .deadline_ns = r.deadline_ns.value_or(Waiting::kNoDeadline),
          .tokens = static_cast<int32_t>(r.tokens.size()),
          .priority = r.priority};
}

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
  arrivals_.insert(glance(r));
  if (r.request.deadline_ns) deadlines_.insert(glance(r));
  const bool added = requests_.emplace(r.request.id, std::move(request)).second;
  ZP_CHECK(added, "request {} waits already", r.request.id);
}

std::unique_ptr<QueuedRequest> RequestQueue::remove(uint64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return nullptr;
  std::unique_ptr<QueuedRequest> request = std::move(found->second);
  requests_.erase(found);
  sequences_.erase(request->sequence);
  arrivals_.erase(glance(*request));
  if (request->request.deadline_ns) deadlines_.erase(glance(*request));
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

std::vector<QueuedRequest*> RequestQueue::window(const QueueView& view) {
  std::vector<QueuedRequest*> out;
  const auto limit = std::min(static_cast<size_t>(view.look_ahead), requests_.size());
  if (limit == 0) return out;
  out.reserve(limit);
  visit(view, [&](const Waiting& waiting) {
    out.push_back(waiting.request);
    return out.size() < limit;
  });
  return out;
}

void RequestQueue::forget_match(QueuedRequest& request) {
  arrivals_.find(glance(request))->matched = false;
  if (request.request.deadline_ns) deadlines_.find(glance(request))->matched = false;
}

void RequestQueue::check_invariants() const {
  ZP_CHECK(sequences_.size() == requests_.size() && arrivals_.size() == requests_.size(),
           "{} requests, {} in order of age, {} in order of priority", requests_.size(), sequences_.size(),
           arrivals_.size());
  size_t deadlines = 0;
  for (const auto& [id, request] : requests_) {
    ZP_CHECK(request->request.id == id, "request {} is filed under {}", request->request.id, id);
    ZP_CHECK(sequences_.contains(request->sequence), "request {} has no age", id);
    ZP_CHECK(!request->cancelled, "cancelled request {} waits", id);
    if (request->request.deadline_ns) ++deadlines;
  }
  ZP_CHECK(deadlines == deadlines_.size(), "{} deadlines, {} listed", deadlines, deadlines_.size());
  arrivals_.check_invariants();
  deadlines_.check_invariants();
  ZP_CHECK(bypassed() <= left_, "the oldest request was passed by {} of {}", bypassed(), left_);
}

}  // namespace zp
