// A step as the engine gets it: which tokens a rank computes, where the reused blocks are, and what to keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "zp/cache/block_pool.h"
#include "zp/schedule/cost.h"

namespace zp {

/// Where the keys and values of one reused block are when the step runs.
struct BlockSource {
  enum class Kind : uint8_t {
    kPool,  ///< `value` is a block of the rank's pool
    kStep,  ///< `value` is the row of this step's fresh tokens where the block starts; its 16 rows are consecutive
  };
  Kind kind = Kind::kPool;
  int64_t value = 0;
  friend bool operator==(const BlockSource&, const BlockSource&) = default;
};

/// A computed block that is to be kept.
struct BlockStore {
  int32_t block = 0;              ///< number of the block in its sequence: tokens [16 * block, 16 * block + 16)
  BlockId pool_block = kNoBlock;  ///< where to keep it
  friend bool operator==(const BlockStore&, const BlockStore&) = default;
};

/// One request's part of a step: it computes tokens [begin, end).
struct Segment {
  uint64_t request = 0;
  int32_t begin = 0;                  ///< a multiple of kBlockTokens; at least one token is computed
  int32_t end = 0;                    ///< the request's last token is computed in this segment
  int64_t row = 0;                    ///< the step's fresh row of token `begin`
  std::vector<BlockSource> prefix{};  ///< [begin / kBlockTokens], in order of the sequence
  std::vector<BlockStore> keep{};  ///< whole blocks inside [begin, end), in order of the sequence; often a part of them

  [[nodiscard]] int32_t tokens() const noexcept { return end - begin; }
};

/// Why a step got no more requests.
enum class StopReason : uint8_t {
  kTarget,      ///< its load reached the target
  kQueueEnded,  ///< nothing else was waiting for this rank
  kLookAhead,   ///< more is waiting, beyond the look-ahead
  kCapacity,    ///< a request that was waiting did not fit under step_tokens_max
  kDeadline,    ///< it holds a request whose deadline presses
};
[[nodiscard]] std::string_view to_string(StopReason reason) noexcept;

/// One forward pass of one rank. Fresh rows are the segments' computed tokens, in order of segments. A segment's kStep
/// sources lie in rows of earlier segments. Steps of a rank run in the order in which they were handed out.
struct StepPlan {
  uint64_t id = 0;
  int32_t rank = 0;
  std::vector<Segment> segments{};
  int64_t tokens = 0;      ///< computed; the number of fresh rows
  int64_t hit_tokens = 0;  ///< reused
  double load = 0;         ///< by the LoadRule
  double target = 0;       ///< the load that it was to be filled to
  RequestCost cost;
  StopReason filled_by = StopReason::kQueueEnded;
  /// The unfinished step whose promised blocks this one reads: it may start only after that one, and must not run at
  /// all if that one failed. Empty: independent.
  std::optional<uint64_t> relies_on{};
};

}  // namespace zp
