// Which words are exactly one token?
#include "zp/tokenizer/word_table.h"

#include <algorithm>

#include "zp/base/check.h"

namespace zp::tokenizer {

WordTable::WordTable(std::vector<Word> words)
    : slots_(std::bit_ceil(words.size() + words.size() / 2 + 2)), long_ids_(0) {
  for (Word& word : words) {
    if (word.first.size() > kShortBytesMax) {
      long_words_.push_back(std::move(word));
      continue;
    }
    const Key key = key_of(word.first);
    Slot& slot = slots_[index_of(key)];
    ZP_CHECK(slot.value < 0, "the word of id {} has id {} already", word.second, slot.value);
    slot = {key, word.second};
  }
  long_ids_ = StringTable(long_words_.size());
  for (const Word& word : long_words_) long_ids_.insert(word.first, word.second);
}

}  // namespace zp::tokenizer
