// Keeps spans until their events are done.
#include "zp/device/span_log.h"

#include <utility>

namespace zp {

void SpanLog::add(Lane lane, std::string name, Event begin, Event end) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= spans_max_) {
    ++dropped_;
    return;
  }
  entries_.push_back({lane, std::move(name), std::move(begin), std::move(end)});
}

void SpanLog::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  dropped_ = 0;
}

int64_t SpanLog::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::vector<Span> SpanLog::finished() const {
  const std::lock_guard lock(mutex_);
  std::vector<Span> spans;
  for (const Entry& entry : entries_) {
    const auto begin_ns = entry.begin.reached_ns();
    const auto end_ns = entry.end.reached_ns();
    if (begin_ns && end_ns) spans.push_back({entry.lane, entry.name, *begin_ns, *end_ns});
  }
  return spans;
}

}  // namespace zp
