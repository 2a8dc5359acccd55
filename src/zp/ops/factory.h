// Makes the operations of a device; the only place that names concrete backends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "zp/ops/ops.h"

namespace zp {

/// Largest sizes that the operations will be asked for: scratch memory is taken once, from these.
struct OpsLimits {
  int64_t moe_tokens = 0;         ///< T of moe()
  int64_t experts_per_token = 0;  ///< k
  int64_t experts = 0;            ///< E
  ExpertSize expert;
  int64_t head_dim = 0;    ///< D
  int64_t linear_k = 0;    ///< largest k of linear() and head()
  int64_t head_rows = 0;   ///< R of head()
  int64_t vocabulary = 0;  ///< V
};

/// Which implementation to make.
struct OpsSpec {
  /// Unset: bf16 where the device multiplies it fast (AMX or AVX-512 on a CPU), f32 elsewhere.
  std::optional<DType> activation;
  bool reference = false;  ///< The plain loops of ops/reference instead of the fast ones (CPU only; slow).
  /// CPU: an operation completes no earlier than its FLOPs take at this rate, to model a device; 0: as it can.
  double paced_flops_per_second = 0;
  /// With it: attention takes as long as if each token saw so many keys more, as on devices where short sequences are
  /// slow for their FLOPs.
  int64_t paced_attention_keys = 0;
  OpsLimits limits;
};

/// Throws kUnsupported when the device cannot compute in the type or the sizes asked for.
[[nodiscard]] std::unique_ptr<Ops> make_ops(Device& device, const OpsSpec& spec);

/// The type make_ops() takes when none is asked for.
[[nodiscard]] DType default_activation_dtype(const Device& device);

/// For the memory plan, before there is an Ops object: bytes of scratch memory that make_ops() will take, and of
/// weights that pack_matrix() and pack_expert() of such an object will make, padding included.
[[nodiscard]] size_t ops_scratch_bytes(const Device& device, const OpsSpec& spec);
[[nodiscard]] size_t packed_matrix_bytes(const Device& device, const OpsSpec& spec, int64_t n, int64_t k);
[[nodiscard]] size_t packed_expert_bytes(const Device& device, const OpsSpec& spec, const ExpertSize& size);

/// For the plan of host memory: locked bytes that each object of make_ops() will take.
[[nodiscard]] size_t ops_pinned_bytes(const Device& device);

/// The most tokens that the device's operations take; beyond any use where there is no limit.
struct OpsTokenLimits {
  int64_t sequence = INT64_MAX;  ///< of one sequence, cached ones included
  int64_t step = INT64_MAX;      ///< T of embed(), store_kv() and attention()
};
/// `heads_per_kv_head`: query heads that share a kv head.
[[nodiscard]] OpsTokenLimits ops_token_limits(const Device& device, int64_t heads_per_kv_head);

}  // namespace zp
