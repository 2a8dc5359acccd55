// Which ids are put around those of a text?
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "zp/tokenizer/json_view.h"

namespace zp::tokenizer {

/// The "post_processor" of a tokenizer.json, for one sequence: at most one template. Immutable, thread-safe.
class PostProcessor final {
 public:
  /// Adds nothing.
  PostProcessor() = default;

  /// Throws kUnsupported for types that are not implemented, kCorrupt for templates of unknown tokens.
  [[nodiscard]] static PostProcessor parse(const JsonView& json);

  /// The ids with everything that belongs around them.
  [[nodiscard]] std::vector<int32_t> apply(std::vector<int32_t> ids) const;

 private:
  void add(const JsonView& json, int depth);
  void set_template(const JsonView& json, std::vector<int32_t> pattern);

  std::optional<std::vector<int32_t>> template_;
};

}  // namespace zp::tokenizer
