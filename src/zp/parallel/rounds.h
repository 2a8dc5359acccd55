// Which rows each rank works on in which round of a step, so that all ranks meet in the same collectives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zp/model/forward.h"
#include "zp/parallel/group_layout.h"

namespace zp {

/// One chunk of a step, over all ranks. The chunk's rows lie in the buffers in order of the ranks that own them.
struct Round {
  ChunkRows attention;          ///< rows whose attention half this rank works on
  ChunkRows own;                ///< rows whose residual this rank has, and whose feed-forward half is its business
  std::vector<int64_t> counts;  ///< [ranks] rows that each rank owns
  int64_t total = 0;            ///< sum of counts
};

/// What the rounds of one rank depend on.
struct RoundInput {
  GroupLayout layout;
  int32_t rank = 0;
  std::span<const int64_t> tokens;  ///< [ranks] of each rank's step
  int64_t chunk_tokens = 0;         ///< the most rows of a round, over all ranks; at least `ranks`
};

/// The same number of rounds with the same counts on every rank. With DP attention a rank's rounds cover its own step,
/// with no rows once it has ended. With TP attention all ranks have the same step: a round is the same chunk for all,
/// owned by everybody (TP experts: `counts` then has the whole chunk for each rank, and total is the chunk) or in
/// slices (EP experts). Not for pipelines.
[[nodiscard]] std::vector<Round> make_rounds(const RoundInput& input);

/// The rank that computes the logits of each row of a step that all ranks have (TP attention).
[[nodiscard]] std::vector<int32_t> row_owners(const RoundInput& input);

}  // namespace zp
