// Expert parallelism: tokens go to the ranks that hold their experts, and the results come back (two all-to-alls).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zp/device/device.h"
#include "zp/model/forward.h"
#include "zp/ops/ops.h"
#include "zp/parallel/collectives.h"
#include "zp/parallel/rounds.h"
#include "zp/shape/model_shape.h"
#include "zp/tensor/tensor.h"

namespace zp {

/// One rank's part in the exchange. A token is sent once for each of its experts, and each expert's result comes back
/// by itself, in type A, to be weighted and summed where the token came from, in the router's order: so a token's
/// result has the same bits whichever ranks hold its experts. Where tokens go depends on the router, so the host waits
/// once a call for the ids of all ranks; that, and these ids' bytes, are control traffic. Used by the rank's thread.
class ExpertExchange final {
 public:
  struct Parts {
    Device& device;
    Ops& ops;
    Collectives& collectives;
    const ModelShape& shape;      ///< of the rank
    std::vector<int32_t> owners;  ///< [E] the rank that holds each expert
  };
  /// `chunk_tokens`: the most rows of a round, over all ranks.
  ExpertExchange(Parts parts, int64_t chunk_tokens);

  /// What a call works on: own rows of a round, as Forward::buffers() has them.
  struct Args {
    int32_t layer = 0;             ///< for counting traffic
    const Round* round = nullptr;  ///< lives until the stream has been synchronized
    Forward::Buffers buffers;
    std::span<const std::byte* const> experts;  ///< [E], null where another rank holds it
  };
  /// delta = sum of the weighted results of the experts of own rows. Waits for the stream once, in the middle.
  void run(Stream& stream, const Args& args);

  [[nodiscard]] static size_t buffer_bytes(const ModelShape& shape, DType activation, int64_t chunk_tokens,
                                           int32_t ranks);

 private:
  void plan(const Round& round);

  Parts parts_;
  // With n the chunk's tokens, c = ceil(n / ranks) those of one rank, k the experts a token.
  Tensor all_ids_;       // [n, k] i32, of all ranks
  Tensor sent_;          // [c * k, H] A: own tokens, in order of the ranks they go to
  Tensor received_;      // [n * k, H] A: tokens for the experts held here, in order of the ranks they come from
  Tensor received_ids_;  // [n * k, 1] i32
  Tensor ones_;          // [n * k, 1] f32
  Tensor computed_;      // [n * k, H] f32
  Tensor results_;       // [n * k, H] A
  Tensor returned_;      // [c * k, H] A, in the order of sent_

  // Of the latest call; its acts read them until the next call has synchronized.
  std::vector<int32_t> ids_host_;        // [n, k]
  std::vector<int64_t> sent_tokens_;     // [sent rows] index among own rows
  std::vector<int64_t> sent_places_;     // [own rows * k] where each (token, j) lies in sent_
  std::vector<int32_t> expert_of_row_;   // [received rows]
  std::vector<int64_t> send_counts_;     // [ranks]
  std::vector<int64_t> receive_counts_;  // [ranks]
};

}  // namespace zp
