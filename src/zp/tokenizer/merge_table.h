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

/// An open-addressed hash table from (left id, right id) to Merge. Filled once, then read by any number of threads.
class MergeTable final {
 public:
  explicit MergeTable(std::size_t count_max) : slots_(std::bit_ceil(count_max * 2 + 2)) {}

  /// Sets the merge of a pair; a pair that is given again keeps the later one, as Hugging Face has it.
  void set(int32_t left, int32_t right, Merge merge) {
    Slot& slot = slots_[index_of(key_of(left, right))];
    slot = {key_of(left, right), merge};
  }

  [[nodiscard]] Merge find(int32_t left, int32_t right) const {
    return slots_[index_of(key_of(left, right))].merge;
  }

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = std::numeric_limits<uint64_t>::max();

  static uint64_t key_of(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }

  // The slot of the key, or the empty one where it would go.
  [[nodiscard]] std::size_t index_of(uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    const uint64_t mixed = key * 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio: spreads pairs over the high bits
    std::size_t index = static_cast<std::size_t>(mixed >> 32) & mask;
    while (slots_[index].key != key && slots_[index].key != kEmpty) index = (index + 1) & mask;
    return index;
  }

  std::vector<Slot> slots_;
};

}  // namespace zp::tokenizer
