// What do two neighbouring tokens merge into, and how early?
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace zp::tokenizer {

/// The result of merging a pair. Lower ranks merge first; kNever means that the pair does not merge.
struct Merge {
  static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
  uint32_t rank = kNever;
  int32_t id = -1;
};

/// A map from (left id, right id) to Merge. Filled once, then read by any number of threads.
///
/// Every word starts as single bytes, whose ids are the lowest of a vocabulary by custom, so that pairs of low ids
/// have an array of their own; all others share an open-addressed hash table. Most pairs do not merge: a byte a slot,
/// part of the hash, tells so without a look at the slots, which are too many for a core's cache. Invariant: a slot is
/// empty.
class MergeTable final {
 public:
  explicit MergeTable(std::size_t count_max)
      : low_pairs_(kLowIds * kLowIds),
        slots_(std::bit_ceil(count_max + count_max / 2 + 2)),
        tags_(slots_.size(), kEmptyTag) {}

  /// Sets the merge of a pair; a pair that is given again keeps the later one, as Hugging Face has it.
  void set(int32_t left, int32_t right, Merge merge) {
    if (is_low(left, right)) {
      low_pairs_[low_index(left, right)] = merge;
      return;
    }
    const Place place = place_of(left, right);
    tags_[place.index] = place.tag;
    slots_[place.index] = {place.key, merge};
  }

  [[nodiscard]] Merge find(int32_t left, int32_t right) const {
    if (is_low(left, right)) return low_pairs_[low_index(left, right)];
    const Place place = place_of(left, right);
    return tags_[place.index] == kEmptyTag ? Merge{} : slots_[place.index].merge;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    Merge merge;
  };
  struct Place {
    uint64_t key;
    std::size_t index;  // of the slot that holds the key, or of the empty one where it would go
    uint8_t tag;
  };
  static constexpr uint8_t kEmptyTag = 0;
  static constexpr int32_t kLowIds = 256;

  static bool is_low(int32_t left, int32_t right) { return (left | right) < kLowIds; }
  static std::size_t low_index(int32_t left, int32_t right) {
    return static_cast<std::size_t>(left) * kLowIds + static_cast<std::size_t>(right);
  }

  [[nodiscard]] Place place_of(int32_t left, int32_t right) const {
    const uint64_t key = (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
    const uint64_t hash = key * 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio: spreads pairs over the high bits
    const auto tag = static_cast<uint8_t>((hash >> 56) | 1);
    const std::size_t mask = slots_.size() - 1;
    std::size_t index = static_cast<std::size_t>(hash >> 24) & mask;
    while (tags_[index] != kEmptyTag && (tags_[index] != tag || slots_[index].key != key)) index = (index + 1) & mask;
    return {key, index, tag};
  }

  std::vector<Merge> low_pairs_;  // [left, right]
  std::vector<Slot> slots_;
  std::vector<uint8_t> tags_;  // by slot; kEmptyTag: the slot is empty
};

}  // namespace zp::tokenizer
