// Which part of a model one rank holds, in numbers.
#pragma once

#include <cstdint>

#include "zp/shape/model_shape.h"

namespace zp {

/// Indices [begin, begin + count).
struct IndexRange {
  int32_t begin = 0;
  int32_t count = 0;

  [[nodiscard]] int32_t end() const noexcept { return begin + count; }
  [[nodiscard]] bool contains(int32_t index) const noexcept { return index >= begin && index < end(); }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

/// Part `index` of `parts` nearly equal parts of [0, count): the first ones are the larger. Equal if `parts` divides
/// `count`.
[[nodiscard]] IndexRange part_of(int32_t count, int32_t index, int32_t parts);

/// What a rank holds of each matrix. A query head's kv head is among the kv heads held, at its place.
struct ModelShard {
  IndexRange layers;
  IndexRange query_heads;
  IndexRange kv_heads;
  IndexRange dense_intermediate;
  IndexRange expert_intermediate;
  IndexRange experts;  ///< of each MoE layer; the router is always whole
};

/// All of it.
[[nodiscard]] ModelShard whole_model(const ModelShape& shape);

/// The model that a rank with this shard computes: fewer layers, heads or inner features. Experts keep their numbers,
/// so `experts` stays the model's.
[[nodiscard]] ModelShape shape_of(const ModelShape& shape, const ModelShard& shard);

}  // namespace zp
