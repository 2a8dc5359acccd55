// What the scheduler is asked to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zp/cache/block_hash.h"

namespace zp {

/// One sequence to be computed once.
struct ScheduleRequest {
  uint64_t id = 0;              ///< the caller's; unique among the requests that have not left
  std::vector<int32_t> tokens;  ///< at least 1
  std::string cache_namespace;  ///< to_string(CacheNamespace)
  BlockChain chain;             ///< of these tokens, from this namespace
  int32_t priority = 0;         ///< higher goes first
  std::optional<int64_t> deadline_ns;
  int64_t arrival_ns = 0;  ///< for whoever measures waiting; the order of arrival is that of submit()
};

/// What became of a submission. All but kAccepted are refusals: the request was not taken.
enum class SubmitResult : uint8_t {
  kAccepted,
  kEmpty,        ///< no tokens
  kTooLong,      ///< more tokens than max_request_tokens
  kQueueFull,    ///< queue_max requests are waiting
  kDuplicateId,  ///< a request of this id has not left yet
};

/// What became of a cancellation.
enum class CancelResult : uint8_t {
  kRemoved,  ///< it was waiting; it has left and will be in no step
  kInStep,   ///< it is in a step that was handed out; it leaves with it, and will not be queued again
  kUnknown,  ///< no such request
};

}  // namespace zp
