// Which tokens did a word have the last time? A small memory of words that are several tokens.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace zp::tokenizer {

/// A direct-mapped cache from words to ids, shared by all threads without locks; a newer word takes the place of an
/// older one. What it answers is always what was put in for exactly that word.
///
/// Each slot is a sequence lock: its version is odd while someone writes. A reader that sees the version change has
/// read a mixture and takes it for a miss; a writer that finds another writer gives up. Every member is atomic. Data
/// are stored with release and read with acquire, so that a reader of new data also sees the version move.
class WordCache final {
 public:
  explicit WordCache(std::size_t slot_count);

  /// Appends the ids of a word; false, appending nothing, if it is not here.
  [[nodiscard]] bool find(std::string_view word, std::vector<int32_t>& ids) const;

  /// Remembers the last `id_count` of `ids` for a word, if both are short enough.
  void put(std::string_view word, const std::vector<int32_t>& ids, std::size_t id_count);

 private:
  static constexpr std::size_t kWordBytesMax = 48;
  static constexpr std::size_t kIdCountMax = 16;
  static constexpr std::size_t kKeyWords = kWordBytesMax / 8;
  static constexpr std::size_t kIdWords = kIdCountMax / 2;

  struct Content {       // as plain words: sizes, then the bytes of the key, then two ids a word
    uint64_t sizes = 0;  // size of the word in bytes << 8 | number of ids; 0: empty
    std::array<uint64_t, kKeyWords> key{};
    std::array<uint64_t, kIdWords> ids{};
  };
  struct alignas(128) Slot {
    std::atomic<uint64_t> version{0};
    std::atomic<uint64_t> sizes{0};
    std::array<std::atomic<uint64_t>, kKeyWords> key{};
    std::array<std::atomic<uint64_t>, kIdWords> ids{};
  };

  [[nodiscard]] Slot& slot_of(std::string_view word) const;

  std::size_t slot_count_;
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace zp::tokenizer
