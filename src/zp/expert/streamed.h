// Experts that arrive while earlier layers compute: gathered from peers, streamed from host memory, or both.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "zp/device/device.h"
#include "zp/device/span_log.h"
#include "zp/expert/cluster.h"
#include "zp/expert/slot_ring.h"
#include "zp/expert/slot_tables.h"
#include "zp/expert/wait_log.h"
#include "zp/model/expert_source.h"

namespace zp {

/// How a rank streams.
struct StreamingSpec {
  int32_t slots = 2;
  int32_t window = 4;  ///< hybrid: turns whose shares of host memory a rank has room for
  size_t slice_bytes = size_t{1} << 20;
  bool poison = false;                     ///< see SlotRingSpec
  int64_t share_patience_ns = 20'000'000;  ///< hybrid: see WindowSpec
};

/// Each rank pulls what it needs, and waits for no other: weights do not change once loaded. The first slots are filled
/// as soon as the source is made, and the slot that the last layer frees gets the next step's first streamed layer. The
/// rank's thread owns it.
class StreamedExperts final : public ExpertSource {
 public:
  /// `cluster`, `device` and `spans` (which may be null) outlive it.
  StreamedExperts(const ExpertCluster& cluster, int32_t rank, Device& device, const StreamingSpec& spec,
                  SpanLog* spans = nullptr);

  [[nodiscard]] std::string_view description() const noexcept override;
  [[nodiscard]] std::span<const std::byte* const> acquire(int32_t layer, Stream& compute) override;
  void release(int32_t layer, Stream& compute) override;
  [[nodiscard]] std::vector<LayerWait> take_waits() override { return waits_.take(); }
  void set_busy(bool /*busy*/) override {}
  void abandon(const std::exception_ptr& /*failure*/) override {}

  /// Bytes of slots that such a source allocates.
  [[nodiscard]] static uint64_t slot_bytes(const Placement& placement, int32_t rank, size_t blob_bytes, int32_t slots);

 private:
  void fetch();
  void copy(Stream& stream, std::span<const CopyRange> copies, Lane lane, int32_t layer);

  SpanLog* spans_;
  SlotRing ring_;
  SlotTables tables_;
  WaitLog waits_;
  // Last, so that what they copy to outlives them. Null when nothing comes that way.
  std::unique_ptr<Stream> peer_stream_;
  std::unique_ptr<Stream> host_stream_;
  std::vector<Stream*> streams_;  // those that are there
};

}  // namespace zp
