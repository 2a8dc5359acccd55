// Causal attention over cached extents and fresh rows.
#pragma once

#include "zp/ops/cpu/workers.h"
#include "zp/ops/ops.h"

namespace zp::cpu {

/// Scratch memory is sized for heads up to this wide.
inline constexpr int64_t kHeadDimMax = 512;

inline void check_head_dim(int64_t head_dim) {
  ZP_CHECK(head_dim <= kHeadDimMax, "head dimension {}, at most {}", head_dim, kHeadDimMax);
}

void attention(Workers& workers, const AttentionArgs& args);

}  // namespace zp::cpu
