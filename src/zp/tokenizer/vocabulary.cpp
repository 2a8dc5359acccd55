// Which token has which id?
#include "zp/tokenizer/vocabulary.h"

#include <algorithm>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"

namespace zp::tokenizer {

Vocabulary Vocabulary::parse(const JsonView& json) {
  const simdjson::dom::object object = json.object();
  std::size_t count = 0;
  int32_t id_max = -1;
  for (const auto& field : object) {
    id_max = std::max(id_max, JsonView(field.value, json.where()).token_id());
    ++count;
  }
  Vocabulary vocabulary(count);
  vocabulary.tokens_.resize(static_cast<std::size_t>(id_max + 1));
  vocabulary.present_.resize(static_cast<std::size_t>(id_max + 1));
  for (const auto& field : object) {
    const int32_t id = JsonView(field.value, json.where()).token_id();
    const auto index = static_cast<std::size_t>(id);
    if (vocabulary.present_[index]) {
      fail(ErrorCode::kCorrupt, "{} gives id {} to both {} and {}", json.where(), id,
           quote_excerpt(vocabulary.tokens_[index]), quote_excerpt(field.key));
    }
    vocabulary.tokens_[index] = std::string(field.key);
    vocabulary.present_[index] = true;
    if (!vocabulary.ids_.insert(vocabulary.tokens_[index], id)) {
      fail(ErrorCode::kCorrupt, "{} has the token {} twice", json.where(), quote_excerpt(field.key));
    }
  }
  vocabulary.count_ = static_cast<int32_t>(count);
  return vocabulary;
}

}  // namespace zp::tokenizer
