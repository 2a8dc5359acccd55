// Which tokens make up a word?
#include "zp/tokenizer/bpe.h"

#include <utility>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/tokenizer/merge_symbols.h"

namespace zp::tokenizer {
namespace {

constexpr int32_t kNoToken = -1;
constexpr std::size_t kCacheSlots = 1 << 15;  // 4 MiB

void require_no_affix(const JsonView& json, std::string_view key) {
  const std::optional<JsonView> affix = json.find(key);
  if (affix && !affix->string().empty()) {
    fail(ErrorCode::kUnsupported, "{} is {}, which is not supported", affix->where(), quote_excerpt(affix->string()));
  }
}

void require_no_dropout(const JsonView& json) {
  const std::optional<JsonView> dropout = json.find("dropout");
  if (dropout && dropout->number() != 0.0) {
    fail(ErrorCode::kUnsupported, "{} is {}, which is not supported", dropout->where(), dropout->number());
  }
}

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, std::size_t merge_count)
    : vocabulary_(std::make_unique<const Vocabulary>(std::move(vocabulary))),
      merges_(merge_count),
      cache_(std::make_unique<WordCache>(kCacheSlots)) {}

Bpe Bpe::parse(const JsonView& json, const ByteAlphabet& alphabet) {
  // Files from before model types existed hold a BPE model without saying so.
  const std::optional<JsonView> type = json.find("type");
  if (type && type->string() != "BPE") {
    fail(ErrorCode::kUnsupported, "{} is {}, and only \"BPE\" is supported", type->where(),
         quote_excerpt(type->string()));
  }
  const JsonView merges = json.at("merges");
  Bpe bpe(Vocabulary::parse(json.at("vocab")), merges.array().size());
  bpe.read_options(json);
  bpe.read_merges(merges);
  bpe.find_bytes(alphabet);
  bpe.find_whole_words(alphabet);
  return bpe;
}

void Bpe::read_options(const JsonView& json) {
  json.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                   "byte_fallback", "ignore_merges", "vocab", "merges"});
  require_no_dropout(json);
  require_no_affix(json, "continuing_subword_prefix");
  require_no_affix(json, "end_of_word_suffix");
  if (json.flag("byte_fallback", false)) {
    fail(ErrorCode::kUnsupported, "{}.byte_fallback is true, which is not supported", json.where());
  }
  fuse_unknown_ = json.flag("fuse_unk", false);
  ignore_merges_ = json.flag("ignore_merges", false);
  if (const std::optional<JsonView> unknown = json.find("unk_token")) {
    const std::optional<int32_t> id = vocabulary_->id_of(unknown->string());
    if (!id)
      fail(ErrorCode::kCorrupt, "{} {} is not in the vocabulary", unknown->where(), quote_excerpt(unknown->string()));
    unknown_id_ = *id;
  }
}

void Bpe::read_merges(const JsonView& json) {
  uint32_t rank = 0;
  for (const simdjson::dom::element element : json.array()) {
    std::string_view line;
    simdjson::dom::array pair;
    std::string_view left;
    std::string_view right;
    if (element.get(line) == simdjson::SUCCESS) {
      if (line.starts_with("#version")) continue;
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
        fail(ErrorCode::kCorrupt, "{}[{}] is {}, not two tokens with a space between", json.where(), rank,
             quote_excerpt(line));
      }
      left = line.substr(0, space);
      right = line.substr(space + 1);
    } else if (element.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
               pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) {
      fail(ErrorCode::kCorrupt, "{}[{}] is neither a string nor a pair of strings", json.where(), rank);
    }
    add_merge(left, right, rank, json.where());
    ++rank;
  }
}

void Bpe::add_merge(std::string_view left, std::string_view right, uint32_t rank, const std::string& where) {
  const auto id_of = [&](std::string_view token) {
    const std::optional<int32_t> id = vocabulary_->id_of(token);
    if (!id)
      fail(ErrorCode::kCorrupt, "{}[{}] needs the token {}, which the vocabulary lacks", where, rank,
           quote_excerpt(token));
    return *id;
  };
  const int32_t left_id = id_of(left);
  const int32_t right_id = id_of(right);
  std::string merged;
  merged.reserve(left.size() + right.size());
  merged.append(left).append(right);
  merges_.set(left_id, right_id, {rank, id_of(merged)});
}

void Bpe::find_bytes(const ByteAlphabet& alphabet) {
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char value = static_cast<char>(byte);
    byte_ids_[byte] = vocabulary_->id_of(alphabet.to_characters({&value, 1})).value_or(kNoToken);
  }
}

// Collects the words that encode() would turn into exactly one token: most words of most texts.
void Bpe::find_whole_words(const ByteAlphabet& alphabet) {
  std::vector<WordTable::Word> words;
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabulary_->id_end(); ++id) {
    const std::string* token = vocabulary_->token_of(id);
    if (token == nullptr || token->empty()) continue;
    std::optional<std::string> bytes = alphabet.to_bytes(*token);
    if (!bytes) continue;
    if (!ignore_merges_) {
      ids.clear();
      merge_word(*bytes, ids);
      if (ids.size() != 1 || ids.front() != id) continue;
    }
    words.emplace_back(*std::move(bytes), id);
  }
  whole_words_ = std::make_unique<const WordTable>(std::move(words));
}

void Bpe::append_symbols(std::string_view word, std::vector<int32_t>& symbols) const {
  bool after_unknown = false;
  for (const char byte : word) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id != kNoToken) {
      symbols.push_back(id);
      after_unknown = false;
    } else if (unknown_id_ >= 0 && !(fuse_unknown_ && after_unknown)) {
      symbols.push_back(unknown_id_);
      after_unknown = true;
    }
  }
}

void Bpe::merge_word(std::string_view word, std::vector<int32_t>& ids) const {
  const std::size_t begin = ids.size();
  append_symbols(word, ids);
  merge_symbols(merges_, ids, begin);
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (const std::optional<int32_t> id = whole_words_->find(word)) {
    ids.push_back(*id);
    return;
  }
  if (cache_->find(word, ids)) return;
  const std::size_t before = ids.size();
  merge_word(word, ids);
  cache_->put(word, ids, ids.size() - before);
}

}  // namespace zp::tokenizer
