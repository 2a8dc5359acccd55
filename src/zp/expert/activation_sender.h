// Sends a layer's tokens to the ranks that hold their experts, and sums what comes back: the sender's half of
// StepMode::kSendActivations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "zp/device/device.h"
#include "zp/device/span_log.h"
#include "zp/expert/cluster.h"
#include "zp/expert/expert_server.h"
#include "zp/expert/wait_log.h"
#include "zp/model/moe_runner.h"
#include "zp/ops/ops.h"
#include "zp/tensor/tensor.h"

namespace zp {

struct ActivationSenderSpec {
  int32_t rank = 0;
  int64_t tokens = 0;             ///< the most of a step
  int64_t experts_per_token = 0;  ///< k
  ExpertSize size;
};

/// A token is sent once for each of its remote experts. Rows for own experts are computed here meanwhile. Every
/// expert's result is weighted and summed here, in the router's order, so that a token's result has the bits of
/// Ops::moe(). The host waits once a layer for the routing. Owned by the rank's thread.
class ActivationSender final {
 public:
  /// All outlive it; `servers` are those of all ranks; `spans` may be null.
  struct Parts {
    const ExpertCluster& cluster;
    Device& device;
    Ops& ops;
    std::vector<ExpertServer*> servers;
    SpanLog* spans = nullptr;
  };
  ActivationSender(Parts parts, const ActivationSenderSpec& spec);
  /// Waits until nobody reads or writes its buffers.
  ~ActivationSender();
  ActivationSender(const ActivationSender&) = delete;
  ActivationSender& operator=(const ActivationSender&) = delete;

  /// The most tokens of a step that it can be used for.
  [[nodiscard]] int64_t tokens_max() const noexcept { return spec_.tokens; }
  /// No rank's server has failed so far.
  [[nodiscard]] bool owners_are_alive() const;

  /// Sends `rows`, all the step's tokens. Waits for `stream`, which has their routing. Throws what a rank failed with.
  void begin_layer(Stream& stream, int32_t layer, const MoeRows& rows);
  /// Computes what is left here, and makes `stream` wait for the rest. Blocks while owners have not taken their rows.
  void finish_layer(Stream& stream, int32_t layer, const MoeRows& rows);
  /// After a step that failed: whether it may have been for an owner that did. Waits until nobody reads or writes its
  /// buffers.
  [[nodiscard]] bool has_lost_jobs() noexcept;
  /// As ExpertSource::take_waits(): two entries a layer, for its routing and for the results of others.
  [[nodiscard]] std::vector<LayerWait> take_waits() { return waits_.take(); }

  /// Bytes of device memory that a sender allocates.
  [[nodiscard]] static uint64_t buffer_bytes(const ActivationSenderSpec& spec, DType activation);

 private:
  template <typename Make>
  static void for_each_buffer(ActivationSender* sender, const ActivationSenderSpec& spec, DType activation,
                              Make&& make);
  void plan(int32_t layer);

  Parts parts_;
  const ActivationSenderSpec spec_;
  std::vector<std::vector<const std::byte*>> experts_;  // [layers][E], null where another rank holds it
  // With n the step's tokens and k the experts of each.
  Tensor sent_;     // [n * k, H] A: rows in order of their owners, this rank first
  Tensor results_;  // [n * k, H] f32, in the same order
  Tensor own_ids_;  // [n * k, 1] i32 experts of the rows that stay here
  Tensor ones_;     // [n * k, 1] f32
  WaitLog waits_;

  // Of the latest layer. Its acts and jobs read them until the next layer's routing is there.
  std::vector<int32_t> ids_;         // [n, k]
  std::vector<int64_t> counts_;      // [ranks] rows for each owner
  std::vector<int64_t> begins_;      // [ranks] where they begin in sent_
  std::vector<int64_t> places_;      // [n * k] where each (token, choice) lies in sent_
  std::vector<int64_t> tokens_;      // [n * k] the token of each row of sent_
  std::vector<int32_t> row_expert_;  // [n * k] the expert of each row of sent_
  std::vector<std::shared_ptr<JobTicket>> tickets_;
};

}  // namespace zp
