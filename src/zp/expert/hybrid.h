// Experts of many ranks that do not fit on them: part of each layer is gathered from peers' shards, part is streamed
// from host memory by all ranks together and pulled out of each other's windows.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "zp/device/device.h"
#include "zp/device/span_log.h"
#include "zp/expert/cluster.h"
#include "zp/expert/host_streamer.h"
#include "zp/expert/link_timing.h"
#include "zp/expert/slot_ring.h"
#include "zp/expert/slot_tables.h"
#include "zp/expert/streamed.h"
#include "zp/expert/wait_log.h"
#include "zp/expert/window.h"
#include "zp/model/expert_source.h"

namespace zp {

/// The window and the host streamers of all ranks. They work from when it is made until it is destroyed, after the last
/// HybridExperts.
class HostChannel final {
 public:
  /// One device and one span log (or null) a rank; `cluster` and they outlive it.
  HostChannel(const ExpertCluster& cluster, std::vector<Device*> devices, std::vector<SpanLog*> spans,
              const StreamingSpec& spec);
  ~HostChannel() { window_.close(); }

  [[nodiscard]] ExpertWindow& window() noexcept { return window_; }
  [[nodiscard]] const HostStreamer& streamer(int32_t rank) const { return *streamers_.at(static_cast<size_t>(rank)); }

 private:
  ExpertWindow window_;
  std::vector<std::unique_ptr<HostStreamer>> streamers_;
};

/// A thread of its own, the gatherer, finds out where each share is and issues the pulls, so that the rank's thread
/// waits only when compute has nothing else to do either.
class HybridExperts final : public ExpertSource {
 public:
  /// `cluster`, `channel`, `device` and `spans` (which may be null) outlive it.
  HybridExperts(const ExpertCluster& cluster, HostChannel& channel, int32_t rank, Device& device,
                const StreamingSpec& spec, SpanLog* spans);
  ~HybridExperts() override;

  [[nodiscard]] std::string_view description() const noexcept override { return "hybrid"; }
  [[nodiscard]] std::span<const std::byte* const> acquire(int32_t layer, Stream& compute) override;
  void release(int32_t layer, Stream& compute) override;
  [[nodiscard]] std::vector<LayerWait> take_waits() override { return waits_.take(); }
  void set_busy(bool busy) override;
  void abandon(const std::exception_ptr& failure) override;

  /// How fast experts come from other ranks and from the host: times copies into `scratch`, device memory that nobody
  /// else uses meanwhile, between steps. Blocks; throws what a link throws.
  struct LinkTimings {
    LinkTiming peer;
    LinkTiming host;
  };
  [[nodiscard]] LinkTimings time_links(std::span<std::byte> scratch);

 private:
  /// The copies of a turn's shares into a slot; they live until the turn is there.
  struct SlotCopies {
    std::vector<CopyRange> from_peers;
    std::vector<CopyRange> from_own_window;
    std::vector<CopyRange> from_host;
    std::vector<Event> ready;
    int64_t peers_ready_ns = 0;
  };
  void await_quiet();
  void gather();
  [[nodiscard]] bool await_work();
  [[nodiscard]] bool fetch();
  void resolve(int32_t layer, int32_t slot, const ExpertWindow::Shares& shares);
  Event copy(Stream& stream, std::span<const CopyRange> copies, Lane lane, int32_t layer);

  const ExpertCluster& cluster_;
  HostChannel& channel_;
  const int32_t rank_;
  Device& device_;
  const size_t slice_bytes_;
  SpanLog* spans_;
  std::vector<SlotCopies> slots_;  // the gatherer's, but for peers_ready_ns of slots that have been fetched
  bool attached_ = false;          // the gatherer's

  std::mutex mutex_;
  std::condition_variable changed_;
  SlotRing ring_;               // guarded by mutex_, but for its constants
  bool busy_ = false;           // guarded by mutex_
  bool stopping_ = false;       // guarded by mutex_
  std::exception_ptr failure_;  // guarded by mutex_

  SlotTables tables_;
  WaitLog waits_;
  std::unique_ptr<Stream> peer_stream_;
  std::unique_ptr<Stream> own_stream_;   // within the rank's memory, over no link
  std::unique_ptr<Stream> host_stream_;  // for shares that are late
  std::vector<Stream*> streams_;
  std::thread thread_;
};

}  // namespace zp
