// One link, a few slots, and a queue of times.
#include "zp/shape/ring_timeline.h"

#include <algorithm>
#include <utility>

#include "zp/base/check.h"

namespace zp {

RingTimeline::RingTimeline(int32_t slots, std::vector<double> gathers, double from)
    : gathers_(std::move(gathers)), link_free_(from) {
  for (int32_t slot = 0; slot < slots && !gathers_.empty(); ++slot) gather_next(from);
}

void RingTimeline::gather_next(double from) {
  link_free_ = std::max(link_free_, from) + gathers_[next_];
  next_ = (next_ + 1) % gathers_.size();
  ready_.push_back(link_free_);
}

RingTimeline::Step RingTimeline::run(double begin, double before, std::span<const TimedLayer> layers, double after) {
  Step step{.end = begin + before};
  size_t streamed = 0;
  for (const TimedLayer& layer : layers) {
    step.end += layer.outside;
    if (layer.streamed) {
      ZP_CHECK(++streamed <= gathers_.size(), "more layers are streamed than the {} gathers", gathers_.size());
      const double ready = ready_.front();
      ready_.pop_front();
      step.exposed += std::max(0.0, ready - step.end);
      step.end = std::max(step.end, ready);
    }
    step.end += layer.experts;
    if (layer.streamed) gather_next(step.end);
  }
  ZP_CHECK(streamed == gathers_.size(), "{} layers are streamed, there are {} gathers", streamed, gathers_.size());
  step.end += after;
  return step;
}

}  // namespace zp
