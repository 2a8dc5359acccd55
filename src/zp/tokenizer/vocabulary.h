// Which token has which id? The "vocab" of the model, in the printable characters of the byte alphabet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zp/tokenizer/json_view.h"
#include "zp/tokenizer/string_table.h"

namespace zp::tokenizer {

/// Immutable after parse. Ids may have holes. Invariant: tokens are distinct, and so are ids.
class Vocabulary final {
 public:
  /// Throws kCorrupt for a token or an id that occurs twice.
  [[nodiscard]] static Vocabulary parse(const JsonView& json);

  [[nodiscard]] std::optional<int32_t> id_of(std::string_view token) const { return ids_.find(token); }
  /// Null if no token has the id.
  [[nodiscard]] const std::string* token_of(int32_t id) const {
    return id >= 0 && id < id_end() && present_[static_cast<std::size_t>(id)] ? &tokens_[static_cast<std::size_t>(id)]
                                                                              : nullptr;
  }
  [[nodiscard]] int32_t id_end() const { return static_cast<int32_t>(tokens_.size()); }  // highest id + 1
  [[nodiscard]] int32_t count() const { return count_; }

 private:
  explicit Vocabulary(std::size_t count_max) : ids_(count_max) {}

  std::vector<std::string> tokens_;  // by id
  std::vector<bool> present_;        // by id
  StringTable ids_;                  // keys lie in tokens_
  int32_t count_ = 0;
};

}  // namespace zp::tokenizer
