// Cuts a model's shape into parts.
#include "zp/shape/model_shard.h"

#include <algorithm>

#include "zp/base/check.h"

namespace zp {

IndexRange part_of(int32_t count, int32_t index, int32_t parts) {
  ZP_CHECK(count >= 0 && index >= 0 && index < parts, "part {} of {} parts of {}", index, parts, count);
  const int32_t base = count / parts;
  const int32_t larger = count % parts;
  return {.begin = index * base + std::min(index, larger), .count = base + (index < larger ? 1 : 0)};
}

ModelShard whole_model(const ModelShape& shape) {
  return {.layers = {0, shape.layers},
          .query_heads = {0, shape.query_heads},
          .kv_heads = {0, shape.kv_heads},
          .dense_intermediate = {0, shape.dense_intermediate},
          .expert_intermediate = {0, shape.expert_intermediate},
          .experts = {0, shape.experts}};
}

ModelShape shape_of(const ModelShape& shape, const ModelShard& shard) {
  ModelShape part = shape;
  part.layers = shard.layers.count;
  part.query_heads = shard.query_heads.count;
  part.kv_heads = shard.kv_heads.count;
  part.dense_intermediate = shard.dense_intermediate.count;
  part.expert_intermediate = shard.expert_intermediate.count;
  part.feed_forward.assign(shape.feed_forward.begin() + shard.layers.begin,
                           shape.feed_forward.begin() + shard.layers.end());
  return part;
}

}  // namespace zp
