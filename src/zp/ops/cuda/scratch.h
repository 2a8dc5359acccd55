// The scratch memory that operations share, sized once from the limits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "zp/base/math.h"
#include "zp/ops/cuda/expert_layout.h"
#include "zp/ops/factory.h"

namespace zp::cuda {

/// The most of the vocabulary that the output head works on at a time: [R, slice] logits stay in the L2 cache.
inline constexpr int64_t kHeadSlice = 32768;

/// Where each array lies in one buffer. The experts and the head never run at the same time, so they share it.
class ScratchLayout final {
 public:
  explicit ScratchLayout(const OpsLimits& limits) {
    const int64_t assignments = limits.moe_tokens * limits.experts_per_token;
    const ExpertLayout layout(limits.expert.hidden, limits.expert.intermediate);
    expert_counts = place(limits.experts * 4);
    expert_cursors = place(limits.experts * 4);
    next_tile = place(4);
    expert_offsets = place((limits.experts + 1) * 4);
    tile_starts = place((limits.experts + 1) * 4);
    slots = place(assignments * 4);
    slot_tokens = place(assignments * 4);
    inner = place(assignments * layout.inner_columns() * 2);
    y = place(assignments * limits.expert.hidden * 2);
    const size_t moe_bytes = bytes_;
    bytes_ = 0;
    head_logits = place(limits.head_rows * std::min(limits.vocabulary, kHeadSlice) * 4);
    head_maxima = place(limits.head_rows * 4);
    head_sums = place(limits.head_rows * 8);
    head_nans = place(limits.head_rows * 4);
    bytes_ = std::max(moe_bytes, bytes_);
  }
  [[nodiscard]] size_t size_bytes() const noexcept { return bytes_; }

  size_t expert_counts = 0;   // [E] i32
  size_t expert_cursors = 0;  // [E] i32
  size_t next_tile = 0;       // [1] i32
  size_t expert_offsets = 0;  // [E + 1] i32
  size_t tile_starts = 0;     // [E + 1] i32
  size_t slots = 0;           // [T, k] i32
  size_t slot_tokens = 0;     // [T * k] i32
  size_t inner = 0;           // [T * k, inner columns] bf16
  size_t y = 0;               // [T * k, H] bf16
  size_t head_logits = 0;     // [R, slice] f32
  size_t head_maxima = 0;     // [R] f32
  size_t head_sums = 0;       // [R] f64
  size_t head_nans = 0;       // [R] i32

 private:
  size_t place(int64_t size_bytes) {
    const size_t offset = bytes_;
    bytes_ = round_up(bytes_ + static_cast<size_t>(size_bytes), size_t{256});
    return offset;
  }
  size_t bytes_ = 0;
};

}  // namespace zp::cuda
