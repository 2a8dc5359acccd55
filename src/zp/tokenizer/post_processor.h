// Which ids are put around those of a text?
#pragma once

#include <cstdint>
#include <vector>

#include "zp/tokenizer/json_view.h"

namespace zp::tokenizer {

/// The "post_processor" of a tokenizer.json, for one sequence: templates, applied in order. Immutable, thread-safe.
class PostProcessor final {
 public:
  /// Adds nothing.
  PostProcessor() = default;

  /// Throws kUnsupported for types that are not implemented, kCorrupt for templates of unknown tokens.
  [[nodiscard]] static PostProcessor parse(const JsonView& json);

  /// The ids with everything that belongs around them.
  [[nodiscard]] std::vector<int32_t> apply(std::vector<int32_t> ids) const;

 private:
  static constexpr int32_t kSequence = -1;  // in a template: where the ids of the text go

  void add(const JsonView& json, int depth);
  void add_template(const JsonView& json);
  void add_bert(const JsonView& json);

  std::vector<std::vector<int32_t>> templates_;
};

}  // namespace zp::tokenizer
