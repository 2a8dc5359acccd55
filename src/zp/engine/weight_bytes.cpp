// Adds up packed weights.
#include "zp/engine/weight_bytes.h"

#include "zp/tensor/dtype.h"

namespace zp {

uint64_t replicated_weight_bytes(const ModelShape& m, const Device& device, const OpsSpec& ops) {
  const auto matrix = [&](int64_t n, int64_t k) -> uint64_t { return packed_matrix_bytes(device, ops, n, k); };
  const int64_t q_dim = int64_t{m.query_heads} * m.head_dim;
  const int64_t kv_dim = int64_t{m.kv_heads} * m.head_dim;
  const int64_t norm_elements = 2 * int64_t{m.hidden} + (m.qk_norm ? 2 * int64_t{m.head_dim} : 0);
  const uint64_t attention = matrix(q_dim + 2 * kv_dim, m.hidden) + matrix(m.hidden, q_dim) +
                             static_cast<uint64_t>(norm_elements) * sizeof(float);
  uint64_t bytes = attention * static_cast<uint64_t>(m.layers);
  for (const FeedForward kind : m.feed_forward) {
    if (kind == FeedForward::kMoe) {
      bytes += matrix(m.experts, m.hidden);
    } else {
      bytes += matrix(2 * int64_t{m.dense_intermediate}, m.hidden) + matrix(m.hidden, m.dense_intermediate);
    }
  }
  const uint64_t table = static_cast<uint64_t>(m.vocabulary) * static_cast<uint64_t>(m.hidden) *
                         size_of(ops.activation.value_or(DType::kF32));
  const int64_t final_norm_and_rope = int64_t{m.hidden} + m.head_dim / 2;
  return bytes + table + matrix(m.vocabulary, m.hidden) + static_cast<uint64_t>(final_norm_and_rope) * sizeof(float);
}

uint64_t route_table_bytes(const WeightSource& source, const ModelShape& part) {
  if (!source.draws_routes()) return 0;
  return static_cast<uint64_t>(part.moe_layers() * kRouteTableRows * part.experts_per_token) * sizeof(int32_t);
}

}  // namespace zp
