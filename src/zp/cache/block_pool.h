// Numbers of the KV blocks that one rank can keep, handed out so that a sequence's blocks lie together.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace zp {

/// A block of a rank's pool: 0 <= id < capacity.
using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;
/// An extent is up to this many consecutive blocks inside one aligned group: 128 tokens.
inline constexpr int32_t kGroupBlocks = 8;

/// Invariant: a block is free or used, never both; each group of kGroupBlocks is listed under the length of its longest
/// free run. Numbers only: the memory belongs to the engine. Not thread-safe; owned by the scheduler's thread.
class BlockPool final {
 public:
  /// Capacity 0 is the KV-free mode: nothing can be allocated.
  explicit BlockPool(int32_t capacity);

  [[nodiscard]] int32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] int32_t free_count() const noexcept { return free_count_; }
  [[nodiscard]] bool is_free(BlockId block) const;

  /// Fills `out` with blocks for consecutive blocks of one sequence. Goes on in the group of `after` (the block that
  /// holds the sequence's previous block, or kNoBlock), then takes whole free groups, then the smallest free run that
  /// holds the rest, then whatever is left. Requires free_count() >= out.size(). O(blocks).
  void allocate(std::span<BlockId> out, BlockId after);
  /// Requires a used block.
  void free(BlockId block);

  /// Aborts when the books do not agree with each other. O(capacity).
  void check_invariants() const;

 private:
  static constexpr int32_t kNoGroup = -1;
  struct Group {
    uint8_t free_mask = 0;  ///< bit i: block i of the group is free
    int32_t previous = kNoGroup;
    int32_t next = kNoGroup;
  };

  int32_t take_run(int32_t group, int32_t first, std::span<BlockId> out);
  void set_mask(int32_t group, uint8_t mask);

  int32_t capacity_ = 0;
  int32_t free_count_ = 0;
  std::vector<Group> groups_;
  std::array<int32_t, kGroupBlocks + 1> heads_{};  ///< [longest free run] -> first group
};

}  // namespace zp
