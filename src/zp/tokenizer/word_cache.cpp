// Which tokens did a word have the last time?
#include "zp/tokenizer/word_cache.h"

#include <xxhash.h>

#include <bit>
#include <cstring>

namespace zp::tokenizer {

WordCache::WordCache(std::size_t slot_count)
    : slot_count_(std::bit_ceil(slot_count)), slots_(std::make_unique<Slot[]>(slot_count_)) {}

WordCache::Slot& WordCache::slot_of(std::string_view word) const {
  return slots_[XXH3_64bits(word.data(), word.size()) & (slot_count_ - 1)];
}

bool WordCache::find(std::string_view word, std::vector<int32_t>& ids) const {
  if (word.size() > kWordBytesMax) return false;
  const Slot& slot = slot_of(word);
  const uint64_t version = slot.version.load(std::memory_order_acquire);
  const uint64_t sizes = slot.sizes.load(std::memory_order_acquire);
  if ((version & 1) != 0 || sizes == 0 || sizes >> 8 != word.size()) return false;
  std::array<uint64_t, kKeyWords> key;
  std::array<uint64_t, kIdWords> found;
  const std::size_t key_words = (word.size() + 7) / 8;
  const std::size_t count = sizes & 0xFF;
  for (std::size_t i = 0; i < key_words; ++i) key[i] = slot.key[i].load(std::memory_order_acquire);
  for (std::size_t i = 0; i < (count + 1) / 2; ++i) found[i] = slot.ids[i].load(std::memory_order_acquire);
  if (slot.version.load(std::memory_order_relaxed) != version) return false;
  if (std::memcmp(key.data(), word.data(), word.size()) != 0) return false;
  const std::size_t begin = ids.size();
  ids.resize(begin + count);
  std::memcpy(ids.data() + begin, found.data(), count * sizeof(int32_t));
  return true;
}

void WordCache::put(std::string_view word, const std::vector<int32_t>& ids, std::size_t id_count) {
  if (word.size() > kWordBytesMax || id_count > kIdCountMax || id_count == 0) return;
  Content content;
  content.sizes = (word.size() << 8) | id_count;
  std::memcpy(content.key.data(), word.data(), word.size());
  std::memcpy(content.ids.data(), ids.data() + (ids.size() - id_count), id_count * sizeof(int32_t));
  Slot& slot = slot_of(word);
  uint64_t version = slot.version.load(std::memory_order_relaxed);
  if ((version & 1) != 0 || !slot.version.compare_exchange_strong(version, version + 1, std::memory_order_acq_rel)) {
    return;
  }
  slot.sizes.store(content.sizes, std::memory_order_release);
  for (std::size_t i = 0; i < kKeyWords; ++i) slot.key[i].store(content.key[i], std::memory_order_release);
  for (std::size_t i = 0; i < kIdWords; ++i) slot.ids[i].store(content.ids[i], std::memory_order_release);
  slot.version.store(version + 2, std::memory_order_release);
}

}  // namespace zp::tokenizer
