// Which number belongs to which string? An open-addressed hash table for lookups in the hot path.
#pragma once

#include <xxhash.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace zp::tokenizer {

/// Maps strings to numbers from 0 on. Keys are borrowed: their bytes must outlive the table and not move. Filled
/// once, then read by any number of threads. Invariant: at least half of the slots are empty.
class StringTable final {
 public:
  explicit StringTable(std::size_t count_max) : slots_(std::bit_ceil(count_max * 2 + 2)) {}

  /// Adds a key; false (and no change) if it is there already. Requires fewer than count_max keys so far.
  bool insert(std::string_view key, int32_t value) {
    const uint64_t hash = XXH3_64bits(key.data(), key.size());
    std::size_t index = hash & (slots_.size() - 1);
    while (slots_[index].value >= 0) {
      if (holds(slots_[index], hash, key)) return false;
      index = (index + 1) & (slots_.size() - 1);
    }
    slots_[index] = {key.data(), static_cast<uint32_t>(key.size()), static_cast<uint32_t>(hash >> 32), value};
    return true;
  }

  [[nodiscard]] std::optional<int32_t> find(std::string_view key) const {
    const uint64_t hash = XXH3_64bits(key.data(), key.size());
    std::size_t index = hash & (slots_.size() - 1);
    while (slots_[index].value >= 0) {
      if (holds(slots_[index], hash, key)) return slots_[index].value;
      index = (index + 1) & (slots_.size() - 1);
    }
    return std::nullopt;
  }

 private:
  struct Slot {
    const char* data = nullptr;
    uint32_t size_bytes = 0;
    uint32_t hash_high = 0;
    int32_t value = -1;  // -1: empty
  };

  static bool holds(const Slot& slot, uint64_t hash, std::string_view key) {
    return slot.hash_high == static_cast<uint32_t>(hash >> 32) && key == std::string_view(slot.data, slot.size_bytes);
  }

  std::vector<Slot> slots_;
};

}  // namespace zp::tokenizer
