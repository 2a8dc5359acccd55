// A rank's host streamer: brings its share of layer after layer from host memory into a window on the rank, whether or
// not the rank itself has work.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "zp/device/device.h"
#include "zp/device/span_log.h"
#include "zp/expert/cluster.h"
#include "zp/expert/window.h"

namespace zp {

struct HostStreamerSpec {
  int32_t rank = 0;
  int32_t depth = 4;
  size_t slice_bytes = size_t{1} << 20;
  bool poison = false;  ///< fill a place with 0xFF before it is filled again: for tests
};

/// Owns the rank's window memory and its own thread.
class HostStreamer final {
 public:
  /// Begins at once. Everything it is given outlives it; `spans` may be null.
  HostStreamer(const ExpertCluster& cluster, ExpertWindow& window, Device& device, const HostStreamerSpec& spec,
               SpanLog* spans);
  /// `window` has been closed.
  ~HostStreamer();
  HostStreamer(const HostStreamer&) = delete;
  HostStreamer& operator=(const HostStreamer&) = delete;

  /// Where an expert of its share lies in the window during a turn; null if it is no expert of its share.
  [[nodiscard]] const std::byte* address(ExpertId id, int32_t place) const;
  /// It waits for room in the window: nothing is on its way. Any thread; may be out of date at once.
  [[nodiscard]] bool is_idle() const noexcept { return idle_.load(); }

 private:
  /// A share whose copies have been issued.
  struct InFlight {
    int64_t turn = 0;
    Event own_pulls_done;
    Event peer_pulls_done;
    Event ready;
  };
  void run();
  void stream_shares();
  InFlight issue(const ExpertWindow::Room& room);
  void publish_oldest(std::deque<InFlight>& in_flight);

  ExpertWindow& window_;
  const HostStreamerSpec spec_;
  SpanLog* spans_;
  std::vector<int32_t> cycle_;                               // streamed layers
  std::vector<std::vector<int32_t>> index_;                  // [layer][E] in the share; -1: not in it
  std::vector<std::vector<std::vector<CopyRange>>> copies_;  // [streamed layer][place]
  size_t blob_bytes_;
  size_t place_bytes_;
  Buffer buffer_;  // [depth, place_bytes_]
  std::unique_ptr<Stream> stream_;
  std::atomic<bool> idle_{false};
  std::thread thread_;
};

}  // namespace zp
