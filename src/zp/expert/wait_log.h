// How long the compute stream stood still for its experts, layer by layer, from timed events around each wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "zp/device/device.h"
#include "zp/model/expert_source.h"

namespace zp {

/// Owned by the rank's thread.
class WaitLog final {
 public:
  /// `before` and `after` are timed events on the compute stream around the wait of `layer`. Until `peers_ready_ns`
  /// the layer waited for other ranks (0: it did not).
  void add(int32_t layer, Event before, Event after, int64_t peers_ready_ns = 0) {
    entries_.push_back({layer, std::move(before), std::move(after), peers_ready_ns, {}});
  }
  /// The same, where it waited for other ranks until the last of `peers_ready`, timed events, was reached.
  void add(int32_t layer, Event before, Event after, std::vector<Event> peers_ready) {
    entries_.push_back({layer, std::move(before), std::move(after), 0, std::move(peers_ready)});
  }

  /// Those whose waits have ended; forgets all.
  [[nodiscard]] std::vector<LayerWait> take() {
    std::vector<LayerWait> waits;
    for (const Entry& entry : entries_) {
      const auto before_ns = entry.before.reached_ns();
      const auto after_ns = entry.after.reached_ns();
      if (!before_ns || !after_ns) continue;  // the stream failed before it got there
      int64_t peers_ready_ns = entry.peers_ready_ns;
      for (const Event& ready : entry.peers_ready)
        peers_ready_ns = std::max(peers_ready_ns, ready.reached_ns().value_or(0));
      const int64_t exposed_ns = *after_ns - *before_ns;
      waits.push_back({.layer = entry.layer,
                       .exposed_ns = exposed_ns,
                       .peer_wait_ns = std::clamp<int64_t>(peers_ready_ns - *before_ns, 0, exposed_ns)});
    }
    entries_.clear();
    return waits;
  }

 private:
  struct Entry {
    int32_t layer;
    Event before;
    Event after;
    int64_t peers_ready_ns;
    std::vector<Event> peers_ready;
  };
  std::vector<Entry> entries_;
};

}  // namespace zp
