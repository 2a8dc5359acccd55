// Which tokens make up a word? Byte-pair encoding over bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zp/tokenizer/byte_alphabet.h"
#include "zp/tokenizer/json_view.h"
#include "zp/tokenizer/merge_table.h"
#include "zp/tokenizer/vocabulary.h"
#include "zp/tokenizer/word_cache.h"
#include "zp/tokenizer/word_table.h"

namespace zp::tokenizer {

/// The "model" of a tokenizer.json. Immutable, thread-safe.
class Bpe final {
 public:
  /// Throws kUnsupported for another model type and for options with an effect that is not implemented (dropout,
  /// byte_fallback, prefixes, suffixes); kCorrupt for merges of unknown tokens.
  [[nodiscard]] static Bpe parse(const JsonView& json, const ByteAlphabet& alphabet);

  /// Appends the ids of one word, which is any non-empty bytes. A long word takes time n log n.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

  [[nodiscard]] const Vocabulary& vocabulary() const { return *vocabulary_; }

 private:
  Bpe(Vocabulary vocabulary, std::size_t merge_count);

  void read_options(const JsonView& json);
  void read_merges(const JsonView& json);
  void add_merge(std::string_view left, std::string_view right, uint32_t rank, const std::string& where);
  void find_bytes(const ByteAlphabet& alphabet);
  void find_whole_words(const ByteAlphabet& alphabet);
  void append_symbols(std::string_view word, std::vector<int32_t>& symbols) const;
  void merge_word(std::string_view word, std::vector<int32_t>& ids) const;

  std::unique_ptr<const Vocabulary> vocabulary_;  // never moves, since the tables below borrow from it
  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_{};  // kNoToken: the vocabulary lacks the byte
  int32_t unknown_id_ = -1;              // stands for bytes that the vocabulary lacks; -1: they are dropped
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  std::unique_ptr<const WordTable> whole_words_;  // words that are one token, so that no merge has to be looked up
  std::unique_ptr<WordCache> cache_;              // of the other words; never changes an answer
};

}  // namespace zp::tokenizer
