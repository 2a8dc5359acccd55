// When a rank's experts arrive and what its compute waits for them: the slot ring of AsyncEP played through time.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace zp {

/// A layer of a step, in seconds.
struct TimedLayer {
  double outside = 0;  ///< before its experts are needed
  double experts = 0;  ///< with them
  bool streamed = false;
};

/// A gather begins when its slot has been released and the link is free; a layer's experts are used when its gather has
/// ended. The ring never drains: behind the last streamed layer comes the next step's first. Times are seconds from any
/// one moment.
class RingTimeline final {
 public:
  /// `gathers`: of each streamed layer, in order. The first `slots` of them begin at `from`.
  RingTimeline(int32_t slots, std::vector<double> gathers, double from);

  struct Step {
    double end = 0;
    double exposed = 0;  ///< compute stood still for experts
  };
  /// Runs a step that begins at `begin`, no earlier than the last one ended, and takes `before` and `after` seconds
  /// besides its layers. As many of these are streamed as there are gathers.
  Step run(double begin, double before, std::span<const TimedLayer> layers, double after);

 private:
  void gather_next(double from);

  std::vector<double> gathers_;
  size_t next_ = 0;           ///< the gather that is issued next
  double link_free_;          ///< when the last one that was issued ends
  std::deque<double> ready_;  ///< when those end that were issued and not used
};

}  // namespace zp
