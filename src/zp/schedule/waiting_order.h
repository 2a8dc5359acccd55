// Requests that wait, in one order, side by side in memory: a plan walks over tens of thousands of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "zp/cache/prefix_index.h"

namespace zp {

struct QueuedRequest;

/// What a plan reads of every request that it looks at.
struct Waiting {
  static constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();

  QueuedRequest* request = nullptr;
  uint64_t sequence = 0;  ///< order of arrival
  int64_t arrival_ns = 0;
  int64_t deadline_ns = kNoDeadline;
  int32_t tokens = 0;
  int32_t priority = 0;
  PathMatch match{};     ///< of its reusable blocks, when a plan last looked at it
  bool matched = false;  ///< `match` was set, and its path is in the index

  [[nodiscard]] bool presses(int64_t limit_ns) const noexcept { return deadline_ns <= limit_ns; }
};

static_assert(sizeof(Waiting) == 56);

/// Waiting requests by rising key, in chunks of consecutive ones. Invariants: keys rise, in a chunk and from chunk to
/// chunk; no chunk is empty; any two neighbours together are at least half of a full chunk. So memory is 56 bytes for
/// each request where all came in order, and at most 4 times that. Adding and removing take O(log chunks +
/// kChunkEntries). Pointers to entries hold until the next of either.
class WaitingOrder final {
 public:
  using Key = std::tuple<int64_t, int64_t, uint64_t>;
  enum class By : uint8_t {
    kArrival,   ///< higher priorities first, then order of arrival
    kDeadline,  ///< higher priorities first, then earlier deadlines, then order of arrival
  };

  explicit WaitingOrder(By by) : by_(by) {}

  /// Requires that no entry has the same key.
  void insert(const Waiting& waiting);
  /// Requires an entry of the same key.
  void erase(const Waiting& waiting);
  /// The entry of the same key, or null.
  [[nodiscard]] Waiting* find(const Waiting& waiting);
  [[nodiscard]] const Waiting* find(const Waiting& waiting) const {
    return const_cast<WaitingOrder*>(this)->find(waiting);
  }
  [[nodiscard]] size_t size() const noexcept { return size_; }

  /// Calls `use(entry)` for the entries of this priority and lower ones, in order, until it returns false.
  template <typename Use>
  void visit_from(int32_t priority, Use&& use) {
    const Key from{-int64_t{priority}, std::numeric_limits<int64_t>::min(), 0};
    auto chunk = chunk_of(from);
    if (chunk == chunks_.end()) return;
    size_t place = static_cast<size_t>(place_of(chunk->second, from) - chunk->second.begin());
    while (chunk != chunks_.end()) {
      Chunk& entries = chunk->second;
      if (++chunk != chunks_.end()) __builtin_prefetch(chunk->second.data());
      for (; place < entries.size(); ++place) {
        __builtin_prefetch(entries.data() + place + kPrefetchedEntries);
        if (!use(entries[place])) return;
      }
      place = 0;
    }
  }

  /// Aborts when an invariant does not hold. O(entries).
  void check_invariants() const;

 private:
  static constexpr size_t kChunkEntries = 256;
  static constexpr size_t kPrefetchedEntries = 8;  ///< so far ahead of the one that is used
  using Chunk = std::vector<Waiting>;
  using Chunks = std::map<Key, Chunk>;  ///< by a key between those of the chunk before and the chunk's own

  [[nodiscard]] Key key_of(const Waiting& waiting) const noexcept {
    return {-int64_t{waiting.priority}, by_ == By::kDeadline ? waiting.deadline_ns : 0, waiting.sequence};
  }
  /// Where the key is, or belongs; end() only if there are no chunks.
  [[nodiscard]] Chunks::iterator chunk_of(const Key& key);
  /// The first entry in the chunk whose key is not less.
  [[nodiscard]] Chunk::iterator place_of(Chunk& chunk, const Key& key) const;
  Chunks::iterator split(Chunks::iterator chunk, const Key& key);
  bool merge_with_next(Chunks::iterator chunk);

  By by_;
  Chunks chunks_;
  size_t size_ = 0;
};

}  // namespace zp
