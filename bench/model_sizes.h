// A model's layer as benchmarks of operations take it.
#pragma once

#include <cstdint>
#include <string_view>

#include "zp/base/check.h"
#include "zp/shape/known_models.h"

namespace zp::bench {

struct ModelSizes {
  std::string_view name;  ///< in the names of measurements: "30B"
  int64_t hidden = 0;
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t experts = 0;
  int64_t chosen = 0;  ///< experts a token
  int64_t intermediate = 0;
  int64_t vocabulary = 0;
  int64_t layers = 0;
};

/// Of a model that find_known_model() knows.
[[nodiscard]] inline ModelSizes sizes_of(std::string_view known, std::string_view name) {
  const KnownModel* model = find_known_model(known);
  ZP_CHECK(model != nullptr, "no model is known as {}", known);
  const ModelShape& shape = model->shape;
  return {.name = name,
          .hidden = shape.hidden,
          .q_heads = shape.query_heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .experts = shape.experts,
          .chosen = shape.experts_per_token,
          .intermediate = shape.expert_intermediate,
          .vocabulary = shape.vocabulary,
          .layers = shape.layers};
}

}  // namespace zp::bench
