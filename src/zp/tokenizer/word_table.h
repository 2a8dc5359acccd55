// Which words are exactly one token? The lookup that most words of most texts end with.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zp/tokenizer/string_table.h"

namespace zp::tokenizer {

/// A map from words to ids. A word of up to 15 bytes lies in its slot, so that finding it touches one cache line;
/// longer ones go through a StringTable. Built once, then read by any number of threads.
class WordTable final {
 public:
  using Word = std::pair<std::string, int32_t>;

  /// Requires distinct, non-empty words.
  explicit WordTable(std::vector<Word> words);
  WordTable(const WordTable&) = delete;  // the table of long words borrows from long_words_
  WordTable& operator=(const WordTable&) = delete;

  [[nodiscard]] std::optional<int32_t> find(std::string_view word) const {
    if (word.size() > kShortBytesMax) return long_ids_.find(word);
    const Key key = key_of(word);
    const Slot& slot = slots_[index_of(key)];
    return slot.value >= 0 ? std::optional(slot.value) : std::nullopt;
  }

 private:
  // The bytes of a word, padded with zeros, and its size in the last byte: equal keys are equal words.
  struct Key {
    uint64_t low = 0;
    uint64_t high = 0;
    bool operator==(const Key&) const = default;
  };
  struct Slot {
    Key key;
    int32_t value = -1;  // -1: empty
  };
  static constexpr std::size_t kShortBytesMax = 15;

  static Key key_of(std::string_view word) {
    Key key;
    char bytes[16] = {};
    std::memcpy(bytes, word.data(), word.size());
    bytes[15] = static_cast<char>(word.size());
    std::memcpy(&key.low, bytes, 8);
    std::memcpy(&key.high, bytes + 8, 8);
    return key;
  }

  // The slot of the key, or the empty one where it would go.
  [[nodiscard]] std::size_t index_of(const Key& key) const {
    uint64_t hash = (key.low ^ std::rotl(key.high, 29)) * 0x9E3779B97F4A7C15ULL;
    hash = (hash ^ (hash >> 32) ^ key.high) * 0xD6E8FEB86659FD93ULL;
    const std::size_t mask = slots_.size() - 1;
    std::size_t index = static_cast<std::size_t>(hash >> 32) & mask;
    while (slots_[index].value >= 0 && slots_[index].key != key) index = (index + 1) & mask;
    return index;
  }

  std::vector<Slot> slots_;
  std::vector<Word> long_words_;
  StringTable long_ids_;
};

}  // namespace zp::tokenizer
