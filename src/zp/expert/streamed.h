// Experts that arrive while earlier layers compute: gathered from peers, streamed from host memory, or both.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "zp/device/device.h"
#include "zp/device/span_log.h"
#include "zp/expert/cluster.h"
#include "zp/expert/link_timing.h"
#include "zp/expert/slot_ring.h"
#include "zp/expert/slot_tables.h"
#include "zp/expert/wait_log.h"
#include "zp/model/expert_source.h"
#include "zp/tensor/tensor_view.h"

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
///
/// In steps that fetch only what they are routed to, a slot stays empty until its layer has been routed; turns that an
/// earlier step has fetched whole are used as they are.
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

  /// When a step's experts are fetched.
  enum class Fetch : uint8_t {
    kAhead,   ///< all of a layer, as soon as a slot is free
    kRouted,  ///< once the layer has been routed; layers are acquired by acquire_routed()
  };
  /// Before a step; until the first call, steps fetch ahead. A step that needs nothing from here calls neither this nor
  /// acquire and release, and leaves what has been fetched to the next one.
  void begin_step(Fetch fetch);
  /// As acquire(), for the experts that tokens are routed to; pointers of others may be wrong. `ids`: [T, k] i32, of
  /// all the step's tokens, written by acts on `compute`, for which the host waits unless the layer is here whole.
  [[nodiscard]] std::span<const std::byte* const> acquire_routed(int32_t layer, Stream& compute,
                                                                 const ConstTensorView& ids);
  /// Layers that were fetched by routing since the last call, and experts that came for them.
  struct RoutedCount {
    int64_t layers = 0;
    int64_t experts = 0;
  };
  [[nodiscard]] RoutedCount take_routed() { return std::exchange(routed_, {}); }

  [[nodiscard]] bool is_streamed(int32_t layer) const { return tables_.is_streamed(layer); }
  /// Any layer's experts come from elsewhere.
  [[nodiscard]] bool fetches() const noexcept { return !streams_.empty(); }
  /// How fast experts come: times copies that bring what is here once more, between steps. Blocks; throws what a link
  /// throws.
  [[nodiscard]] LinkTiming time_link();
  /// They come over the link to other ranks, rather than over that to the host.
  [[nodiscard]] bool from_peers() const noexcept { return peer_stream_ != nullptr; }

  /// Bytes of slots that such a source allocates.
  [[nodiscard]] static uint64_t slot_bytes(const Placement& placement, int32_t rank, size_t blob_bytes, int32_t slots);

 private:
  void fetch();
  void fetch_routed(int32_t layer, Stream& compute, const ConstTensorView& ids);
  [[nodiscard]] std::span<const std::byte* const> use_turn(int32_t layer, Stream& compute, Event before);
  void copy(Stream& stream, std::span<const CopyRange> copies, Lane lane, int32_t layer);

  SpanLog* spans_;
  SlotRing ring_;
  SlotTables tables_;
  WaitLog waits_;
  Fetch when_ = Fetch::kAhead;
  RoutedCount routed_;
  std::vector<int32_t> host_ids_;   // [T, k] of the layer that is fetched by routing
  std::vector<uint8_t> is_routed_;  // [E] of that layer
  /// Copies of the turn in each slot, if it was fetched by routing; they live until the slot is fetched again.
  struct RoutedCopies {
    std::vector<CopyRange> resident;
    std::vector<CopyRange> host;
  };
  std::vector<RoutedCopies> routed_copies_;  // [slots]
  // Last, so that what they copy to outlives them. Null when nothing comes that way.
  std::unique_ptr<Stream> peer_stream_;
  std::unique_ptr<Stream> host_stream_;
  std::vector<Stream*> streams_;  // those that are there
};

}  // namespace zp
